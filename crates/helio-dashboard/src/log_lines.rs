//! A log as a person reads it: the last state of each progress bar instead of every one, and no colours where those are
//! not wanted. Pure.
//!
//! A bar of a terminal writes itself over by `\r`; one of `ray.experimental.tqdm_ray` is a line of JSON for each of
//! its states. Either is folded into what it said last.

use std::collections::VecDeque;

use serde_json::Value;

/// Marks a line that is the state of a bar.
const BAR: &[u8] = b"__ray_tqdm_magic_token__";

/// **LIMIT-1** Bytes of a line without an end that are held back.
const HELD_MAX: usize = 64 << 10;
/// **LIMIT-1** Number of bars that are drawn at a time.
const BARS_MAX: usize = 100;

/// Takes a log in parts and gives it back as it is to be shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The beginning of a line whose end has not come.
    open: Vec<u8>,
    /// Whether a part of that line was given back already.
    is_begun: bool,
    /// The bars that have not ended, by their id: what each would say.
    bars: VecDeque<(String, Vec<u8>)>,
    has_colours: bool,
}

impl Shown {
    pub(crate) fn new(has_colours: bool) -> Self {
        Self { has_colours, ..Self::default() }
    }

    /// Takes in the next part of the log and returns the bytes to show.
    pub(crate) fn take(&mut self, part: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.open.extend_from_slice(part);
        let open = std::mem::take(&mut self.open);
        let mut rest = open.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line(&rest[..end], true, &mut out);
            rest = &rest[end + 1..];
        }
        // The beginning of a line is shown at once unless it may be written over, or be a bar.
        let may_change = rest.contains(&b'\r') || rest.first() == Some(&b'{');
        if may_change && rest.len() <= HELD_MAX {
            self.open = rest.to_vec();
        } else if !rest.is_empty() {
            self.line(rest, false, &mut out);
        }
        if self.has_colours { out } else { plain(&out) }
    }

    /// Returns the rest to show when the log has ended.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        let (open, mut out) = (std::mem::take(&mut self.open), Vec::new());
        if !open.is_empty() {
            self.line(&open, false, &mut out);
        }
        for (_, text) in self.bars.drain(..) {
            out.extend(text);
        }
        if self.has_colours { out } else { plain(&out) }
    }

    fn line(&mut self, line: &[u8], has_end: bool, out: &mut Vec<u8>) {
        let is_begun = std::mem::replace(&mut self.is_begun, !has_end);
        if !is_begun && has_end && self.bar(line, out) {
            return;
        }
        out.extend_from_slice(last_state(line));
        if has_end {
            out.push(b'\n');
        }
    }

    /// Takes the state of a bar; false: this line is none.
    fn bar(&mut self, line: &[u8], out: &mut Vec<u8>) -> bool {
        if !line.windows(BAR.len()).any(|part| part == BAR) {
            return false;
        }
        let begin = line.iter().position(|byte| *byte == b'{').unwrap_or(0);
        let Ok(state) = serde_json::from_slice::<Value>(&line[begin..]) else { return false };
        let Some(id) = state["uuid"].as_str() else { return false };
        let text = format!("{}{}\n", String::from_utf8_lossy(&line[..begin]), drawn(&state));
        self.bars.retain(|(known, _)| known != id);
        if state["closed"].as_bool() == Some(true) {
            out.extend_from_slice(text.as_bytes());
            return true;
        }
        self.bars.push_back((id.to_owned(), text.into_bytes()));
        if self.bars.len() > BARS_MAX
            && let Some((_, text)) = self.bars.pop_front()
        {
            out.extend(text);
        }
        true
    }
}

/// A bar in words: `what: 3/10 it`.
fn drawn(state: &Value) -> String {
    let text = |name: &str| state[name].as_str().unwrap_or_default().to_owned();
    let done = &state["x"];
    let total =
        if state["total"].is_null() { String::new() } else { format!("/{}", state["total"]) };
    format!("{}: {done}{total} {}", text("desc"), text("unit")).trim_end().to_owned()
}

/// Returns the last state that is not blank of a line that was written over by `\r`.
fn last_state(line: &[u8]) -> &[u8] {
    if !line.contains(&b'\r') {
        return line;
    }
    let mut states = line.rsplit(|byte| *byte == b'\r');
    states.find(|state| !state.iter().all(u8::is_ascii_whitespace)).unwrap_or_default()
}

/// The text without colours: `ESC [ … m`.
fn plain(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"\x1b[") {
        let codes =
            rest[at + 2..].iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
        let end = at + 2 + codes;
        if rest.get(end) == Some(&b'm') {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[end + 1..];
        } else {
            out.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[&str]) -> String {
        let mut shown = Shown::new(true);
        let mut out: Vec<u8> = parts.iter().flat_map(|part| shown.take(part.as_bytes())).collect();
        out.extend(shown.end());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn colours_go_and_nothing_else() {
        assert_eq!(plain(b"a\x1b[1;31mred\x1b[0m b\x1b[2Kc\x1b["), b"ared b\x1b[2Kc\x1b[");
        assert_eq!(plain(b""), b"");
    }

    #[test]
    fn a_bar_of_a_terminal_says_its_last_state() {
        assert_eq!(shown(&["\r 0%\r 50%", "\r100%\nnext\n"]), "100%\nnext\n");
        assert_eq!(shown(&["\r 0%\r 50%"]), " 50%", "one that was cut short");
        assert_eq!(shown(&["\r 50%\r    \r\ndone\n"]), " 50%\ndone\n", "one that wipes itself out");
        assert_eq!(shown(&["dos\r\nunix\n\n\r\n"]), "dos\nunix\n\n\n");
        assert_eq!(shown(&["no ", "end"]), "no end");
        assert_eq!(shown(&["  \n\t\n"]), "  \n\t\n", "blanks are no bar");
    }

    #[test]
    fn a_bar_of_rays_is_one_line() {
        let state = |x: u32, closed: bool| {
            format!(
                "{{\"__ray_tqdm_magic_token__\": \"\", \"x\": {x}, \"desc\": \"load\", \"total\": 10, \"unit\": \"it\", \
                 \"uuid\": \"a\", \"closed\": {closed}}}\n"
            )
        };
        let text = format!("a\n{}{}b\n{}c\n", state(1, false), state(5, false), state(10, true));
        assert_eq!(shown(&[&text]), "a\nb\nload: 10/10 it\nc\n");
        let (begin, end) = text.split_at(40);
        assert_eq!(shown(&[begin, end]), shown(&[&text]), "however it is cut");
        assert_eq!(shown(&[&state(3, false)]), "load: 3/10 it\n", "one that never ended");
        assert_eq!(shown(&["{\"x\": 1}\n{half"]), "{\"x\": 1}\n{half");
    }
}
