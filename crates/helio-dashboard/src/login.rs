//! The login of a browser: a cookie for the token, or for a link that is good once.
//!
//! Neither the cookie nor the link has the token in it. Both are a time and a code over it that only who
//! has the token can make (BLAKE2b with the token as its key), so nothing is stored for them and they
//! outlive a restart of the head. Pure: time and randomness are arguments.

use std::collections::BTreeMap;

use blake2b_simd::Params;
use helio_proto::hello::same;

/// Milliseconds that a browser stays logged in.
pub(crate) const COOKIE_MS_MAX: u64 = 30 * 24 * 3_600_000;

/// Milliseconds that a link may wait for its use.
pub(crate) const LINK_MS_MAX: u64 = 10 * 60_000;

/// Number of used links that are remembered; none is taken while there are more.
const USED_MAX: usize = 4096;

/// The value of a cookie that begins now.
pub(crate) fn cookie(token: &str, now_ms: u64) -> String {
    stamp("cookie", token, now_ms + COOKIE_MS_MAX, 0)
}

/// Whether that is a cookie for this token which has not run out.
pub(crate) fn is_cookie(value: &str, token: &str, now_ms: u64) -> bool {
    read("cookie", value, token, now_ms).is_some()
}

/// Returns the key of a link that logs in once, within ten minutes of `now_ms`; `nonce` is random.
#[must_use]
pub fn link_key(token: &str, now_ms: u64, nonce: u64) -> String {
    stamp("link", token, now_ms + LINK_MS_MAX, nonce)
}

/// The links that were used, until they would have run out.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// The time at which each key runs out, by nonce.
    all: BTreeMap<u64, u64>,
}

impl Used {
    /// Whether this key opens the door, this once.
    pub(crate) fn take(&mut self, key: &str, token: &str, now_ms: u64) -> bool {
        self.all.retain(|_, until| *until > now_ms);
        let Some((until, nonce)) = read("link", key, token, now_ms) else { return false };
        if self.all.len() >= USED_MAX {
            return false;
        }
        self.all.insert(nonce, until).is_none()
    }
}

fn stamp(purpose: &str, token: &str, until_ms: u64, nonce: u64) -> String {
    format!("{until_ms:x}.{nonce:x}.{}", code(purpose, token, until_ms, nonce))
}

fn read(purpose: &str, text: &str, token: &str, now_ms: u64) -> Option<(u64, u64)> {
    let mut parts = text.splitn(3, '.');
    let number = |text: Option<&str>| u64::from_str_radix(text?, 16).ok();
    let (until, nonce, given) = (number(parts.next())?, number(parts.next())?, parts.next()?);
    let is_good = same(given.as_bytes(), code(purpose, token, until, nonce).as_bytes());
    (is_good && now_ms < until).then_some((until, nonce))
}

fn code(purpose: &str, token: &str, until_ms: u64, nonce: u64) -> String {
    // A key has 64 bytes at most; a token may be longer.
    let key = blake2b_simd::blake2b(token.as_bytes());
    let text = format!("heliostat dashboard {purpose} {until_ms} {nonce}");
    let code = Params::new().hash_length(24).key(key.as_bytes()).hash(text.as_bytes());
    code.to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_token_and_time() {
        let value = cookie("secret", 1000);
        assert!(is_cookie(&value, "secret", 1000));
        assert!(is_cookie(&value, "secret", 999 + COOKIE_MS_MAX));
        assert!(!is_cookie(&value, "secret", 1000 + COOKIE_MS_MAX));
        assert!(!is_cookie(&value, "other", 1000));
        let (_, rest) = value.split_once('.').unwrap();
        assert!(!is_cookie(&format!("ffffffffffff.{rest}"), "secret", 1000), "the time is signed");
        for garbage in ["", ".", "..", "1.1.", "x.y.z", "secret"] {
            assert!(!is_cookie(garbage, "secret", 1000), "{garbage}");
        }
        assert!(!is_cookie(&link_key("secret", 1000, 1), "secret", 1000), "a link is not a cookie");
    }

    #[test]
    fn a_link_is_good_once() {
        let mut used = Used::default();
        let key = link_key("secret", 1000, 7);
        assert!(!used.take(&key, "other", 1000));
        assert!(used.take(&key, "secret", 1000));
        assert!(!used.take(&key, "secret", 1000));
        assert!(used.take(&link_key("secret", 1000, 8), "secret", 1001));
        assert!(!used.take(&link_key("secret", 1000, 9), "secret", 1000 + LINK_MS_MAX));
        assert!(!used.take(&cookie("secret", 1000), "secret", 1000), "a cookie is not a link");
    }
}
