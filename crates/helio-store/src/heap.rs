//! The process's own memory, as far as its allocator says what happens to it. It is here and not in
//! `helio-env` because processes of users need it, and that crate would bring them `tokio`.

use std::time::Duration;

/// Gives memory that was freed back to the system; takes some milliseconds when that is much. By itself
/// the allocator keeps all that lies below something in use.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(kept: usize) -> i32;
        }
        // SAFETY: it takes the allocator's own locks and touches only what is free.
        unsafe { malloc_trim(0) };
    }
}

/// Time after which a process that is ready runs none of the code of its start any more.
pub const START_SETTLES: Duration = Duration::from_secs(2);

/// Gives back the pages of the file of this code (the program, or a library that Python has loaded) that only the
/// start needed: the relocations, and code that ran once. The kernel would keep them mapped; what is needed again is
/// mapped again from the page cache.
#[cfg(target_os = "linux")]
pub fn give_back_code() {
    use rustix::mm::{Advice, madvise};

    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let Some(file) = file_at(&maps, give_back_code as fn() as usize) else { return };
    for (start, end) in unwritten(&maps, file) {
        let address = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: nobody writes to these private mappings of a file, so their pages are those of the file,
        // from which the next access reads them again. A refusal leaves the pages as they are.
        let _ = unsafe { madvise(address, end - start, Advice::LinuxDontNeed) };
    }
}

/// Elsewhere pages stay as the system decides.
#[cfg(not(target_os = "linux"))]
pub fn give_back_code() {}

/// A mapping of a file, as a line of `/proc/self/maps` says it.
#[cfg(target_os = "linux")]
struct Mapped<'a> {
    range: (usize, usize),
    rights: &'a str,
    offset: &'a str,
    path: &'a str,
}

#[cfg(target_os = "linux")]
impl<'a> Mapped<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (head, path) = line.split_at_checked(line.find('/')?)?;
        let mut fields = head.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let parse = |text| usize::from_str_radix(text, 16).ok();
        let range = parse(start).zip(parse(end))?;
        Some(Self { range, rights: fields.next()?, offset: fields.next()?, path })
    }

    /// Code, and the read-only data at the file's beginning: the dynamic linker writes to neither; what it has
    /// written, and protected afterwards, is not at the beginning.
    fn is_unwritten(&self) -> bool {
        let at_beginning = self.offset.bytes().all(|digit| digit == b'0');
        self.rights == "r-xp" || (self.rights == "r--p" && at_beginning)
    }
}

/// The file that is mapped at an address.
#[cfg(target_os = "linux")]
fn file_at(maps: &str, address: usize) -> Option<&str> {
    let mut all = maps.lines().filter_map(Mapped::of);
    all.find(|one| (one.range.0..one.range.1).contains(&address)).map(|one| one.path)
}

/// The address ranges of a file of which this process has written nothing.
#[cfg(target_os = "linux")]
fn unwritten(maps: &str, file: &str) -> Vec<(usize, usize)> {
    let all = maps.lines().filter_map(Mapped::of);
    all.filter(|one| one.path == file && one.is_unwritten()).map(|one| one.range).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn code_and_the_data_at_the_beginning_of_the_program_are_unwritten() {
        let maps = "\
1000-3000 r--p 00000000 fe:00 12   /opt/a b/program
3000-8000 r-xp 00002000 fe:00 12   /opt/a b/program
8000-9000 r--p 00007000 fe:00 12   /opt/a b/program
9000-a000 rw-p 00008000 fe:00 12   /opt/a b/program
a000-b000 r-xp 00000000 fe:00 13   /usr/lib/libc.so.6
b000-c000 rw-p 00000000 00:00 0    [heap]
";
        assert_eq!(unwritten(maps, "/opt/a b/program"), [(0x1000, 0x3000), (0x3000, 0x8000)]);
        assert_eq!(file_at(maps, 0x3001), Some("/opt/a b/program"));
        assert_eq!(file_at(maps, 0xa000), Some("/usr/lib/libc.so.6"));
        assert_eq!(file_at(maps, 0xb000), None);
    }

    /// The program goes on, and its pages come back as they are needed.
    #[test]
    fn a_program_whose_pages_were_given_back_goes_on() {
        let of_files = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:"));
            line.and_then(|kb| kb.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        };
        let before = of_files();
        give_back_code();
        let after = of_files();
        assert!(after.is_some() && after < before, "{after:?} kB of {before:?} kB");
        assert_eq!(format!("{:?}", (1..4).map(|n| n * n).collect::<Vec<_>>()), "[1, 4, 9]");
    }
}
