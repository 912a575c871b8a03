//! The process's own memory, as far as its allocator says what happens to it. It is here and not in
//! `helio-env` because processes of users need it, and that crate would bring them `tokio`.

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

/// Gives back the pages of the program's file that only its start needed: the relocations, and code that ran
/// once. The kernel would keep them mapped; what is needed again is mapped again from the page cache.
#[cfg(target_os = "linux")]
pub fn give_back_program() {
    use rustix::mm::{Advice, madvise};

    let (Ok(program), Ok(maps)) =
        (std::fs::read_link("/proc/self/exe"), std::fs::read_to_string("/proc/self/maps"))
    else {
        return;
    };
    for (start, end) in unwritten(&maps, &program.to_string_lossy()) {
        let address = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: nobody writes to these private mappings of a file, so their pages are those of the file,
        // from which the next access reads them again. A refusal leaves the pages as they are.
        let _ = unsafe { madvise(address, end - start, Advice::LinuxDontNeed) };
    }
}

/// The address ranges of the program's code and of its read-only data, of `/proc/self/maps`. The dynamic
/// linker writes to neither; what it has written, and protected afterwards, is not at the file's beginning.
#[cfg(target_os = "linux")]
fn unwritten(maps: &str, program: &str) -> Vec<(usize, usize)> {
    let range = |line: &str| {
        let (head, path) = line.split_at_checked(line.find('/')?)?;
        let mut fields = head.split_whitespace();
        let (range, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let at_beginning = offset.bytes().all(|digit| digit == b'0');
        let is_unwritten = rights == "r-xp" || (rights == "r--p" && at_beginning);
        let (start, end) = range.split_once('-')?;
        let parse = |text| usize::from_str_radix(text, 16).ok();
        if path == program && is_unwritten { parse(start).zip(parse(end)) } else { None }
    };
    maps.lines().filter_map(range).collect()
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
        give_back_program();
        let after = of_files();
        assert!(after.is_some() && after < before, "{after:?} kB of {before:?} kB");
        assert_eq!(format!("{:?}", (1..4).map(|n| n * n).collect::<Vec<_>>()), "[1, 4, 9]");
    }
}
