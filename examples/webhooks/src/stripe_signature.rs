//! Stripe's signature: `Stripe-Signature: t=SECONDS,v1=HEX`, an HMAC-SHA256 over the time, a dot and the body.
//! The crates that verify it also bring all types of Stripe's API, so this file implements it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

pub(crate) const HEADER: &str = "stripe-signature";

/// The maximum age of a signature. Clocks may differ by the same time.
const TOLERANCE: Duration = Duration::from_mins(5);

/// Whether one of the signatures in the header is valid and recent. An old one can be a replay attack.
pub(crate) fn is_valid(secret: &[u8], header: &str, body: &[u8], now: SystemTime) -> bool {
    let parts = || header.split(',').filter_map(|part| part.split_once('='));
    let Some((_, time)) = parts().find(|(name, _)| *name == "t") else { return false };
    let seconds = time.parse().ok();
    let Some(signed) = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))) else {
        return false;
    };
    let apart = now.duration_since(signed).unwrap_or_else(|ahead| ahead.duration());
    apart <= TOLERANCE
        && parts().filter(|(name, _)| *name == "v1").any(|(_, signature)| {
            // Compared in constant time.
            hex::decode(signature).is_ok_and(|signature| mac(secret, time, body).verify_slice(&signature).is_ok())
        })
}

/// Makes the header's value.
pub(crate) fn sign(secret: &[u8], body: &[u8], now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
    format!("t={seconds},v1={}", hex::encode(mac(secret, &seconds, body).finalize().into_bytes()))
}

fn mac(secret: &[u8], time: &str, body: &[u8]) -> Hmac<Sha256> {
    // RFC 2104 hashes a longer key and pads a shorter one.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("any length is valid"));
    for part in [time.as_bytes(), b".", body] {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"whsec_test_secret";
    const BODY: &[u8] = br#"{"id": "evt_1"}"#;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_hmac_matches_rfc_4231() {
        // Test case 2. Its data contain no dot, so the test feeds them directly.
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").expect("a key");
        mac.update(b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::encode(mac.finalize().into_bytes()), expected);
    }

    #[test]
    fn a_signature_is_valid_for_five_minutes() {
        let header = sign(SECRET, BODY, at(1_000_000));
        for seconds in [999_700, 1_000_000, 1_000_300] {
            assert!(is_valid(SECRET, &header, BODY, at(seconds)), "{seconds}");
        }
        for seconds in [0, 999_699, 1_000_301] {
            assert!(!is_valid(SECRET, &header, BODY, at(seconds)), "{seconds}");
        }
    }

    #[test]
    fn anything_else_is_invalid() {
        let now = at(1_000_000);
        let header = sign(SECRET, BODY, now);
        assert!(!is_valid(b"other", &header, BODY, now));
        assert!(!is_valid(SECRET, &header, b"{}", now));
        let other_time = header.replace("t=1000000", "t=1000001");
        for header in ["", "t=1000000", "v1=00", "t=x,v1=00", "t=1000000,v1=zz", "t=1000000,v1=", &other_time] {
            assert!(!is_valid(SECRET, header, BODY, now), "{header}");
        }
        // During a change of the secret, Stripe signs twice.
        assert!(is_valid(SECRET, &format!("{header},v1=00,v0=11"), BODY, now));
        assert!(!is_valid(SECRET, &header.replace("v1", "v0"), BODY, now));
    }
}
