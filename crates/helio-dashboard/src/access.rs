//! Access rules: a pure judgement of a request's head, which says whether the server answers the request.
//!
//! **AUTH-1** Everything but [`PUBLIC`] asks for the cluster's token. Programs send it in `Authorization:
//! Bearer` (or `X-Ray-Authorization`, for those behind a proxy that takes the first for itself); a browser
//! gets a cookie for it at `/login`.
//!
//! A browser sends its cookie with every request, whoever made it send that. So what comes with a cookie
//! must (1) name this server in `Host` — a name that an attacker's DNS server points here is refused — and
//! (2) come from a page of this server when it changes something or opens a WebSocket. A request with the
//! token itself needs neither: no page of others has the token.
//!
//! A cluster with `AUTH_MODE=disabled` answers whoever asks. There every browser is in the place of one
//! with a cookie, and is judged like it: whoever visits a page of a stranger does not thereby run the stranger's code.

use std::net::IpAddr;

use helio_proto::hello::same;
use helio_types::OPEN_TOKEN;

use crate::login;

/// Paths that are answered without a token: the head's health, and the pages that a browser needs to log in.
pub(crate) const PUBLIC: &[&str] = &[
    "/api/authentication_mode",
    "/api/gcs_healthz",
    "/api/healthz",
    "/api/local_raylet_healthz",
    "/favicon.ico",
    "/login",
];

/// The name of Ray's cookie, which has the token itself.
const RAY_COOKIE: &str = "ray-authentication-token";

/// The parts of a request's head that the judgement depends on.
#[derive(Debug, Default)]
pub(crate) struct Head<'a> {
    pub(crate) path: &'a str,
    /// The request is neither GET nor HEAD, or it is a WebSocket.
    pub(crate) is_change: bool,
    pub(crate) host: &'a str,
    pub(crate) origin: Option<&'a str>,
    pub(crate) authorization: Option<&'a str>,
    pub(crate) ray_authorization: Option<&'a str>,
    pub(crate) cookies: &'a str,
    /// `User-Agent`.
    pub(crate) agent: &'a str,
}

impl Head<'_> {
    /// Whether a page in a browser may be behind it: all of them say that they are Mozilla, and name the page that
    /// they ask for where it changes something.
    fn is_of_browser(&self) -> bool {
        self.origin.is_some() || !self.cookies.is_empty() || self.agent.contains("Mozilla/")
    }
}

/// The judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The path is one of [`PUBLIC`]: everybody gets the answer, which tells nothing of the cluster.
    Public,
    /// A program with the token.
    Program,
    /// A browser that has logged in.
    Browser,
    /// The request has no token.
    Missing,
    /// A wrong one.
    Wrong,
    /// The name of the server is none of ours.
    Misdirected,
    /// A page of somebody else asks.
    CrossSite,
}

/// The names and the token of this server.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) token: String,
    /// Host names by which it may be asked, besides `localhost` and IP addresses.
    pub(crate) names: Vec<String>,
    /// The name of the cookie: browsers share cookies between the ports of a host.
    pub(crate) cookie: String,
}

impl Door {
    /// Judges a request; `now_ms` is the time of day.
    pub(crate) fn judge(&self, head: &Head<'_>, now_ms: u64) -> Verdict {
        if PUBLIC.contains(&head.path) {
            return if head.path == "/login" && !self.is_own(head.host) {
                Verdict::Misdirected
            } else if head.is_change && !is_same_site(head) {
                Verdict::CrossSite
            } else {
                Verdict::Public
            };
        }
        // Without tokens a program needs none, but a browser's page of another server must not act through it.
        if self.is_open() {
            return match head.is_of_browser() {
                false => Verdict::Program,
                true if !self.is_own(head.host) => Verdict::Misdirected,
                true if head.is_change && !is_same_site(head) => Verdict::CrossSite,
                true => Verdict::Browser,
            };
        }
        if let Some(given) = head.authorization.or(head.ray_authorization) {
            let token =
                given.split_once(' ').filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
            let is_right = token
                .is_some_and(|(_, token)| same(token.trim().as_bytes(), self.token.as_bytes()));
            return if is_right { Verdict::Program } else { Verdict::Wrong };
        }
        // A name that somebody else points here (DNS rebinding) would bring the cookie along.
        if !self.is_own(head.host) {
            return Verdict::Misdirected;
        }
        let mut given = cookies(head.cookies)
            .filter(|(name, _)| *name == self.cookie || *name == RAY_COOKIE)
            .peekable();
        if given.peek().is_none() {
            return Verdict::Missing;
        }
        let is_right = given.any(|(name, value)| match name {
            RAY_COOKIE => same(value.as_bytes(), self.token.as_bytes()),
            _ => login::is_cookie(value, &self.token, now_ms),
        });
        match is_right {
            false => Verdict::Wrong,
            true if head.is_change && !is_same_site(head) => Verdict::CrossSite,
            true => Verdict::Browser,
        }
    }

    /// Whether nobody is asked for a token.
    pub(crate) fn is_open(&self) -> bool {
        self.token == OPEN_TOKEN
    }

    /// Whether `Host` names this server: an address, `localhost`, or one of its names. Only a name can be
    /// made to point somewhere else between two requests.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inner, _)) => inner,
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let name = name.to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(&name))
    }
}

/// Whether the page that asks is one of this server. Every browser of the last years sends `Origin` with
/// what changes something; who sends none is none, and has no cookie by accident.
fn is_same_site(head: &Head<'_>) -> bool {
    let origin = head.origin.and_then(|origin| origin.split_once("://"));
    match (head.origin, origin) {
        (None, _) => head.path == "/login",
        (Some(_), Some((_, from))) => from.eq_ignore_ascii_case(head.host),
        (Some(_), None) => false,
    }
}

fn cookies(header: &str) -> impl Iterator<Item = (&str, &str)> {
    header.split(';').filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn door() -> Door {
        Door { token: "secret".into(), names: vec!["head.example".into()], cookie: "h-8265".into() }
    }

    fn check(change: impl FnOnce(&mut Head<'_>), expect: Verdict) {
        let mut head = Head { path: "/api/jobs/", host: "127.0.0.1:8265", ..Head::default() };
        change(&mut head);
        assert_eq!(door().judge(&head, NOW), expect, "{head:?}");
    }

    fn cookie() -> String {
        format!("other=1; h-8265={}", login::cookie("secret", NOW))
    }

    /// AUTH-1: no token, no answer.
    #[test]
    fn only_who_shows_the_token_is_answered() {
        check(|_| {}, Verdict::Missing);
        check(|head| head.authorization = Some("Bearer secret"), Verdict::Program);
        check(|head| head.authorization = Some("bearer  secret "), Verdict::Program);
        check(|head| head.ray_authorization = Some("Bearer secret"), Verdict::Program);
        for wrong in ["Bearer wrong", "Bearer ", "secret", "Basic secret", ""] {
            check(|head| head.authorization = Some(wrong), Verdict::Wrong);
        }
        check(|head| head.cookies = "h-8265=secret", Verdict::Wrong);
        check(|head| head.cookies = "h-8266=secret", Verdict::Missing);
        check(|head| head.cookies = "ray-authentication-token=secret", Verdict::Browser);
        check(|head| head.path = "/api/healthz", Verdict::Public);
        check(|head| head.path = "/api/healthz/", Verdict::Missing);
    }

    /// AUTH-1: with `AUTH_MODE=disabled` programs are answered whatever they send, browsers as if logged in.
    #[test]
    fn an_open_door_keeps_pages_of_strangers_out_and_nobody_else() {
        let open = Door { token: OPEN_TOKEN.into(), ..door() };
        let check = |change: &dyn Fn(&mut Head<'_>), expect| {
            let mut head = Head { path: "/api/jobs/", host: "head-svc:8265", ..Head::default() };
            change(&mut head);
            assert_eq!(open.judge(&head, NOW), expect, "{head:?}");
        };
        check(&|_| {}, Verdict::Program);
        check(&|head| head.is_change = true, Verdict::Program);
        for given in ["Bearer theirs", "Basic dTpw", "Bearer secret", ""] {
            check(&|head| head.authorization = Some(given), Verdict::Program);
            check(&|head| head.ray_authorization = Some(given), Verdict::Program);
        }
        let browser = |head: &mut Head<'_>| head.agent = "Mozilla/5.0 (X11; Linux x86_64)";
        check(&browser, Verdict::Misdirected);
        let own = |head: &mut Head<'_>| (head.agent, head.host) = ("Mozilla/5.0", "localhost:8265");
        check(&own, Verdict::Browser);
        let page = |origin: &'static str| {
            move |head: &mut Head<'_>| {
                (head.host, head.is_change, head.origin) = ("127.0.0.1:8265", true, Some(origin));
            }
        };
        check(&page("http://evil.example"), Verdict::CrossSite);
        check(&page("http://127.0.0.1:8265"), Verdict::Browser);
    }

    /// AUTH-1: a name that somebody else controls is not answered, whatever the browser sends with it.
    #[test]
    fn a_foreign_name_of_the_server_is_refused_to_browsers() {
        let cookie = cookie();
        for own in ["localhost:8265", "[::1]:8265", "10.0.0.1:80", "10.0.0.1", "HEAD.example:8265"]
        {
            let change = |head: &mut Head<'_>| (head.host, head.cookies) = (own, "");
            check(change, Verdict::Missing);
        }
        for foreign in ["evil.example:8265", "localhost.evil.example", "", "127.0.0.1.evil.example"]
        {
            let mut head = Head { path: "/api/jobs/", host: foreign, ..Head::default() };
            assert_eq!(door().judge(&head, NOW), Verdict::Misdirected, "{foreign}");
            head.cookies = &cookie;
            assert_eq!(door().judge(&head, NOW), Verdict::Misdirected, "{foreign}");
            head.path = "/login";
            assert_eq!(door().judge(&head, NOW), Verdict::Misdirected, "{foreign}");
            head.authorization = Some("Bearer secret");
            head.path = "/api/jobs/";
            assert_eq!(door().judge(&head, NOW), Verdict::Program, "a service name of Kubernetes");
        }
    }

    /// AUTH-1: what a browser has a cookie for is not done for pages of others.
    #[test]
    fn pages_of_others_change_nothing() {
        let cookie = cookie();
        let judge = |is_change, origin| {
            let head = Head {
                path: "/api/jobs/",
                is_change,
                host: "127.0.0.1:8265",
                origin,
                cookies: &cookie,
                ..Head::default()
            };
            door().judge(&head, NOW)
        };
        assert_eq!(judge(false, None), Verdict::Browser);
        assert_eq!(judge(true, Some("http://127.0.0.1:8265")), Verdict::Browser);
        for foreign in
            ["http://evil.example", "http://127.0.0.1:8266", "null", "http://localhost:8265"]
        {
            assert_eq!(judge(true, Some(foreign)), Verdict::CrossSite, "{foreign}");
        }
        assert_eq!(judge(true, None), Verdict::CrossSite);
    }
}
