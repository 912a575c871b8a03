//! The table of references at the end of a serialized value: `u32` owners, each an address; `u32` references, each an id and
//! the `u32` number of its owner. The last 8 bytes of the value say where the table begins.

use helio_types::{ObjectId, WorkerAddress};

use crate::peer::{Reference, get_worker, put_worker};
use crate::reader::Reader;

/// The references of a value: by owner, and in the order of their positions.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Each owner with the ids of its objects; an object that the value names twice is there twice.
    pub owned: Vec<(WorkerAddress, Vec<ObjectId>)>,
    /// The ids by position.
    pub ids: Vec<ObjectId>,
}

/// Appends a table without the place at which it begins.
pub fn put(out: &mut Vec<u8>, references: impl Iterator<Item = Reference>) {
    let mut owners: Vec<WorkerAddress> = Vec::new();
    let mut rows = Vec::with_capacity(references.size_hint().0);
    for Reference { id, owner } in references {
        // The last owner first: references of one value mostly come from one process.
        let number = owners.iter().rposition(|known| *known == owner).unwrap_or_else(|| {
            owners.push(owner);
            owners.len() - 1
        });
        rows.push((id, number as u32));
    }
    out.extend_from_slice(&(owners.len() as u32).to_le_bytes());
    owners.iter().for_each(|owner| put_worker(out, owner));
    out.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    for (id, number) in rows {
        out.extend_from_slice(&id.0);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Reads the table of a whole value. `None`: the bytes end early, or a reference names an owner that is not there.
#[must_use]
pub fn get(value: &[u8]) -> Option<Table> {
    let (rest, begin) = value.split_last_chunk::<8>()?;
    let begin = usize::try_from(u64::from_le_bytes(*begin)).ok()?;
    let mut reader = Reader::new(rest.get(begin..)?);
    let n_owners = reader.u32().ok()?;
    let mut owned = (0..n_owners)
        .map(|_| Some((get_worker(&mut reader).ok()?, Vec::new())))
        .collect::<Option<Vec<_>>>()?;
    let n_refs = reader.u32().ok()?;
    let ids = (0..n_refs)
        .map(|_| {
            let id = ObjectId(reader.array().ok()?);
            owned.get_mut(reader.u32().ok()? as usize)?.1.push(id);
            Some(id)
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Table { owned, ids })
}

#[cfg(test)]
mod tests {
    use helio_types::WorkerId;

    use super::*;

    fn owner(number: u8) -> WorkerAddress {
        let worker_id = WorkerId([number; WorkerId::LEN]);
        WorkerAddress { worker_id, host: "10.0.0.1".to_owned(), port: 7000, ..Default::default() }
    }

    fn id(number: u8) -> ObjectId {
        ObjectId([number; ObjectId::LEN])
    }

    /// A value of five bytes, two owners and three references, of which two are one.
    fn value() -> Vec<u8> {
        let mut value = b"value".to_vec();
        let rows = [(1, 7), (2, 8), (1, 7)];
        put(&mut value, rows.into_iter().map(|(n, o)| Reference { id: id(n), owner: owner(o) }));
        value.extend_from_slice(&5_u64.to_le_bytes());
        value
    }

    #[test]
    fn what_was_put_is_read_by_owner_and_by_position() {
        let owned = vec![(owner(7), vec![id(1), id(1)]), (owner(8), vec![id(2)])];
        assert_eq!(get(&value()), Some(Table { owned, ids: vec![id(1), id(2), id(1)] }));
        let mut none = Vec::new();
        put(&mut none, std::iter::empty());
        none.extend_from_slice(&0_u64.to_le_bytes());
        assert_eq!(get(&none), Some(Table { owned: Vec::new(), ids: Vec::new() }));
    }

    #[test]
    fn what_ends_early_or_names_no_owner_is_no_table() {
        let whole = value();
        let begin = whole[whole.len() - 8..].to_vec();
        for end in 0..whole.len() - 8 {
            assert_eq!(get(&[&whole[..end], &begin[..]].concat()), None, "{end} bytes");
        }
        // The number of the last reference's owner stands before the place of the table.
        let mut lost = whole.clone();
        let at = lost.len() - 12;
        lost[at] = 2;
        assert_eq!(get(&lost), None);
        // A table that begins beyond the end, or says that it has billions of rows.
        let mut beyond = whole;
        let at = beyond.len() - 8;
        beyond[at..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(get(&beyond), None);
        assert_eq!(get(&[&[0xff; 4][..], &[0; 8]].concat()), None);
        assert_eq!(get(b"short"), None);
    }
}
