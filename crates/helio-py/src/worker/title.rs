//! The name of a worker in `ps`, `top` and psutil: `ray::f` while it runs the task `f`, `ray::A.m` while it runs a
//! method, `ray::IDLE` or `ray::A` between two calls.
//!
//! The command line that `ps` shows is memory of the process, which the kernel reads when somebody asks: a
//! call has its title for a copy of some bytes. The name of a thread, which `top` shows, costs a system call.
//! The name is changed when the thread runs something else than last, and an idle worker gets its own back once
//! it has been idle for a while.

use std::cell::Cell;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// The kernel's limit for the name of a thread, with the NUL at its end.
const THREAD_NAME_MAX: usize = 16;

/// The title of one function or method.
pub(super) struct Title {
    text: Box<str>,
    thread: ThreadName,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct ThreadName([u8; THREAD_NAME_MAX]);

impl Title {
    /// `name`: of the task, or of the method with its class.
    pub(super) fn new(name: &str) -> Self {
        let text: String = "ray::".chars().chain(name.chars()).map(printable).collect();
        let end = whole_letters(&text, THREAD_NAME_MAX - 1);
        let mut thread = [0; THREAD_NAME_MAX];
        thread[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self { text: text.into(), thread: ThreadName(thread) }
    }
}

/// Returns the number of bytes of a text's begin that are at most `max` and cut no letter in two.
fn whole_letters(text: &str, max: usize) -> usize {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

fn printable(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

/// The place of the process's command line in its memory, which is the same place in the zygote and in its copies.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    length: usize,
}

/// `None`: the kernel does not say where the command line is.
static PLACE: OnceLock<Option<Place>> = OnceLock::new();

/// The command line, with the title that stands there.
struct Area {
    place: Place,
    /// Number of its bytes that the present title takes; the rest is zero.
    used: usize,
    /// Number of running calls that have shown their titles.
    running: usize,
}

/// `None`: the process is not a worker, or the kernel does not say where its command line is.
static AREA: Mutex<Option<Area>> = Mutex::new(None);
/// The title between two calls of a worker of tasks.
static IDLE: OnceLock<Title> = OnceLock::new();
/// The title between two calls of an actor.
static ACTOR: OnceLock<Title> = OnceLock::new();

thread_local! {
    static THREAD: Cell<Option<ThreadName>> = const { Cell::new(None) };
}

/// Finds the command line. Called in the zygote, it spares each copy the search.
pub(super) fn find() {
    PLACE.get_or_init(read_place);
}

/// The process is a worker, without work so far.
pub(super) fn begin() {
    let place = *PLACE.get_or_init(read_place);
    *AREA.lock() = place.map(|place| Area { place, used: place.length, running: 0 });
    rest();
    if let Some(area) = &mut *AREA.lock() {
        area.write(&between_calls().text);
    }
}

/// The process has become an actor of that class.
pub(super) fn become_actor(class_name: &str) {
    ACTOR.get_or_init(|| Title::new(class_name));
}

/// Shows that this thread has had nothing to do for a while.
pub(super) fn rest() {
    name_thread(between_calls().thread);
}

fn between_calls() -> &'static Title {
    ACTOR.get().unwrap_or_else(|| IDLE.get_or_init(|| Title::new("IDLE")))
}

/// Shows `title`, also as the name of this thread, until the guard goes. Of calls that run side by side the
/// one that began last is shown.
#[must_use]
pub(super) fn show(title: &Title) -> Shown {
    name_thread(title.thread);
    show_of_loop(title)
}

/// Shows a call that shares its thread with others: the thread keeps its name.
#[must_use]
pub(super) fn show_of_loop(title: &Title) -> Shown {
    if let Some(area) = &mut *AREA.lock() {
        area.running += 1;
        area.write(&title.text);
    }
    Shown(())
}

/// A title that is shown; see [`show`].
pub(super) struct Shown(());

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(area) = &mut *AREA.lock() {
            area.running -= 1;
            if area.running == 0 {
                area.write(&between_calls().text);
            }
        }
    }
}

fn name_thread(name: ThreadName) {
    if THREAD.replace(Some(name)) != Some(name) {
        // SAFETY: the name ends with a NUL and is copied by the call.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.0.as_ptr()) };
    }
}

impl Area {
    fn write(&mut self, title: &str) {
        // The last byte stays NUL: without it the kernel reads on, into the environment.
        let length = whole_letters(title, self.place.length - 1);
        let area = self.place.start as *mut u8;
        // SAFETY: the kernel made the range for the arguments when the program began; it is writable, and
        // nobody reads it any more: Python has copied them.
        unsafe {
            std::ptr::copy_nonoverlapping(title.as_ptr(), area, length);
            if length < self.used {
                std::ptr::write_bytes(area.add(length), 0, self.used - length);
            }
        }
        self.used = length;
    }
}

fn read_place() -> Option<Place> {
    /// The index among the fields after the program's name, which is in brackets and may have blanks.
    const ARG_START: usize = 48 - 3;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(ARG_START);
    let start: usize = fields.next()?.parse().ok()?;
    let end: usize = fields.next()?.parse().ok()?;
    let length = end.checked_sub(start)?;
    (start > 0 && length > 1).then_some(Place { start, length })
}
