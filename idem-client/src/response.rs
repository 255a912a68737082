//! Whether a response is a replay, and how long its `Retry-After` asks to wait, in every form that servers send.
//! A date is compared with the response's own `Date`, so a wrong client clock does not change the wait.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// The header that marks a replay.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Whether the server has stored the response. A retry cannot change it, even if it is a 409 or a 5xx.
pub(crate) fn is_replay(headers: &HeaderMap) -> bool {
    headers.get(REPLAYED).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// How long the server asks to wait. An invalid value, such as a negative number, counts as no `Retry-After`.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is a long wait, not an invalid one.
        return Some(text.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let until = date(text)?;
    let now = headers.get(DATE).and_then(|date_line| date(date_line.to_str().ok()?)).unwrap_or(now);
    // A date in the past means no wait.
    Some(until.duration_since(now).unwrap_or_default())
}

fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "Wed, 21 Oct 2026 07:28:00 GMT";

    fn wait(value: &[u8], headers: &[(HeaderName, &str)]) -> Option<Duration> {
        let mut map = HeaderMap::new();
        map.insert(RETRY_AFTER, value.try_into().unwrap());
        for (name, value) in headers {
            map.insert(name, value.parse().unwrap());
        }
        retry_after(&map, date(NOW).unwrap())
    }

    #[test]
    fn b80_each_form_of_retry_after() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(wait(b"7", &[]), seconds(7));
        assert_eq!(wait(b" 7 ", &[]), seconds(7));
        assert_eq!(wait(b"0", &[]), seconds(0));
        assert_eq!(wait(b"31536000", &[]), seconds(31_536_000));
        assert_eq!(wait(b"99999999999999999999999999", &[]), Some(Duration::MAX));
        assert_eq!(wait(b"Wed, 21 Oct 2026 07:28:09 GMT", &[]), seconds(9));
        assert_eq!(wait(b"Wednesday, 21-Oct-26 07:28:09 GMT", &[]), seconds(9));
        assert_eq!(wait(b"Wed, 21 Oct 2026 07:27:00 GMT", &[]), seconds(0));
        for garbage in [&b"-1"[..], b"+1", b"1.5", b"", b" ", b"soon", b"7 s", b"1, 2", b"\xff", b"Wed, 99 Oct"] {
            assert_eq!(wait(garbage, &[]), None, "{:?}", String::from_utf8_lossy(garbage));
        }
        assert_eq!(retry_after(&HeaderMap::new(), date(NOW).unwrap()), None);
    }

    #[test]
    fn b80_a_date_is_read_by_the_servers_clock() {
        let until = b"Wed, 21 Oct 2026 09:00:05 GMT";
        assert_eq!(wait(until, &[(DATE, "Wed, 21 Oct 2026 09:00:00 GMT")]), Some(Duration::from_secs(5)));
        assert_eq!(wait(until, &[(DATE, "yesterday")]), Some(Duration::from_secs(5525)));
    }
}
