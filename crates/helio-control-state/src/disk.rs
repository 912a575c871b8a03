//! Whether what is asked for can be kept: the head's disk may be full.
//!
//! While it is, requests that would make something durable are refused, with a sentence that says so; everything
//! else goes on, and so does what ends something. The shell holds back what it cannot make durable.

use helio_proto::control::{ControlRequest, Failure, FailureKind};

use crate::event::Note;

#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// The clause that says which disk is full; `None`: there is room.
    full: Option<String>,
}

impl Disk {
    /// Notes that the disk has no room, as that clause says, or has some again. Returns what is news.
    pub(crate) fn on_room(&mut self, full: Option<String>) -> Option<Note> {
        let is_news = self.full.is_some() != full.is_some();
        self.full = full;
        is_news.then(|| Note::DiskFull { why: self.full.clone() })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Returns the reason why the request cannot be granted now; `None` if it can.
    pub(crate) fn refusal(&self, request: &ControlRequest) -> Option<Failure> {
        let why = self.full.as_ref()?;
        let what = match request {
            ControlRequest::CreateActor(_) => "The actor cannot be made",
            ControlRequest::CreateGroup(_) | ControlRequest::AwaitGroup(_) => {
                "The placement group cannot be made"
            }
            ControlRequest::StartJob(_) => "The job cannot begin",
            ControlRequest::KvPut(_) => "The value cannot be kept",
            _ => return None,
        };
        let text = format!("{what}: {why}. What runs goes on; try again when there is room there.");
        Some(Failure::new(FailureKind::System, text))
    }
}

#[cfg(test)]
mod tests {
    use helio_proto::control::{ActorSpec, KvGet, KvPut};

    use super::*;

    #[test]
    fn only_what_must_be_kept_is_refused_and_only_while_there_is_no_room() {
        let mut disk = Disk::default();
        let put = ControlRequest::KvPut(KvPut::default());
        let create = ControlRequest::CreateActor(ActorSpec::default());
        let get = ControlRequest::KvGet(KvGet::default());
        assert_eq!(disk.refusal(&put), None);
        let full = Some("the disk of the head has no room left for /a/control.redb".to_owned());
        assert_eq!(disk.on_room(full.clone()), Some(Note::DiskFull { why: full.clone() }));
        assert_eq!(disk.on_room(full), None, "no news");
        for request in [&put, &create] {
            let refusal = disk.refusal(request).expect("it cannot be kept");
            assert!(refusal.message.contains("no room left for /a/control.redb"));
        }
        assert_eq!(disk.refusal(&get), None);
        assert_eq!(disk.on_room(None), Some(Note::DiskFull { why: None }));
        assert_eq!(disk.refusal(&put), None);
    }
}
