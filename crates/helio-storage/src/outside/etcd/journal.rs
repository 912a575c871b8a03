//! Changes of etcd's keys as bytes, and as groups that a transaction takes.

/// A piece of a journal, in bytes, and what one transaction changes.
pub(super) const PIECE_MAX: usize = 900_000;
const GROUP_OPS_MAX: usize = 100;
const GROUP_BYTES_MAX: usize = 1_000_000;

/// A change of one key, or of a range of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// From the first key to the last, which stays.
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Op {
    fn parts(&self) -> (u8, &[u8], &[u8]) {
        match self {
            Self::Put(key, value) => (0, key, value),
            Self::Delete(key) => (1, key, &[]),
            Self::DeleteRange(from, end) => (2, from, end),
        }
    }

    fn length(&self) -> usize {
        let (_, first, second) = self.parts();
        first.len() + second.len()
    }
}

/// In their order, as many together as a transaction takes.
pub(super) fn groups(ops: &[Op]) -> impl Iterator<Item = &[Op]> {
    let mut rest = ops;
    std::iter::from_fn(move || {
        let (mut count, mut bytes) = (0, 0);
        for op in rest.iter().take(GROUP_OPS_MAX) {
            bytes += op.length();
            // One that is larger than the bound goes alone.
            if count > 0 && bytes > GROUP_BYTES_MAX {
                break;
            }
            count += 1;
        }
        let (group, after) = rest.split_at(count);
        rest = after;
        (!group.is_empty()).then_some(group)
    })
}

pub(super) fn encode(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for op in ops {
        let (kind, first, second) = op.parts();
        bytes.push(kind);
        for part in [first, second] {
            bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
            bytes.extend_from_slice(part);
        }
    }
    bytes
}

/// `None`: those are not changes, or not all of them.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Op>> {
    fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        *rest = after;
        Some(part)
    }
    let (mut ops, mut rest) = (Vec::new(), bytes);
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        let (first, second) = (part(&mut rest)?.to_vec(), part(&mut rest)?.to_vec());
        ops.push(match kind {
            0 => Op::Put(first, second),
            1 => Op::Delete(first),
            2 => Op::DeleteRange(first, second),
            _ => return None,
        });
    }
    Some(ops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_as_they_were_or_not_at_all() {
        let ops = vec![
            Op::Put(b"a".to_vec(), vec![0; 300]),
            Op::Delete(Vec::new()),
            Op::DeleteRange(b"a".to_vec(), b"b".to_vec()),
        ];
        let bytes = encode(&ops);
        assert_eq!(decode(&bytes), Some(ops));
        assert_eq!(decode(&[]), Some(Vec::new()));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(&[7, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn groups_keep_the_order_and_the_bounds() {
        let op = |size: usize| Op::Put(Vec::new(), vec![0; size]);
        let sizes = |ops: &[Op]| groups(ops).map(<[Op]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[]).len(), 0);
        assert_eq!(sizes(&vec![op(1); 250]), [100, 100, 50]);
        assert_eq!(sizes(&[op(600_000), op(300_000), op(200_000)]), [2, 1]);
        assert_eq!(sizes(&[op(5_000_000), op(1)]), [1, 1], "one that is too large goes alone");
    }
}
