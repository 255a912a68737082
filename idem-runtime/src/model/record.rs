//! A row of the table: what is stored for a key, its formats, and what makes a row unreadable.
//! Golden bytes in the tests pin the formats: records outlive releases.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::model::{
    digest::Digest,
    options::SetCookie,
    record_id::RecordId,
    stored_headers::{decode, encode},
};

/// A response as it was written first: no checksum. It is still read.
const UNSEALED_RESPONSE: i16 = 1;

/// A consumer's value as it was written first: JSON in the column `body`, no checksum. It is still read.
const UNSEALED_VALUE: i16 = 2;

/// A response: the column `headers` begins with a checksum.
const RESPONSE: i16 = 3;

/// A consumer's value: JSON in the column `body`, a checksum in the column `headers`.
const VALUE: i16 = 4;

/// One row, as a backend reads and writes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) format: i16,
    pub(crate) status: i16,
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Bytes,
}

/// A record as a look finds it.
pub struct StoredRecord {
    /// The operation that wrote it.
    pub(crate) operation: String,
    pub(crate) record: Record,
}

/// Why a stored record cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("the record has format {0}, which this version does not read")]
    Format(i16),
    #[error("the record's fingerprint is damaged, or was made by a rule that this handler does not have")]
    Fingerprint,
    #[error("the record's status {0} is not the status of a response")]
    Status(i16),
    #[error("the record's headers do not decode")]
    Headers,
    #[error("the record's checksum is wrong: its columns are damaged, or another key's")]
    Checksum,
}

impl Record {
    /// The record of a response: its status, every end-to-end header in order with repeats, its body.
    /// `None` if its headers are over a limit.
    pub(crate) fn new(
        id: &RecordId,
        fingerprint: Vec<u8>,
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
        set_cookie: SetCookie,
    ) -> Option<Self> {
        let status = i16::try_from(status.as_u16()).ok()?;
        let encoded = encode(headers, set_cookie)?;
        let headers = [checksum(id, RESPONSE, status, &encoded, &body).as_slice(), &encoded].concat();
        Some(Self { fingerprint, format: RESPONSE, status, headers, body })
    }

    /// The record of a consumer's value.
    pub(crate) fn of_value(id: &RecordId, fingerprint: Vec<u8>, json: Vec<u8>) -> Self {
        let headers = checksum(id, VALUE, 0, &[], &json).to_vec();
        Self { fingerprint, format: VALUE, status: 0, headers, body: json.into() }
    }

    /// A consumer's value as JSON.
    pub(crate) fn value(&self, id: &RecordId) -> Result<&[u8], Unreadable> {
        let rest = match self.format {
            UNSEALED_VALUE => &*self.headers,
            VALUE => self.unsealed(id)?,
            other => return Err(Unreadable::Format(other)),
        };
        if rest.is_empty() { Ok(&self.body) } else { Err(Unreadable::Headers) }
    }

    /// Decodes the response.
    pub(crate) fn read(self, id: &RecordId) -> Result<(StatusCode, HeaderMap, Bytes), Unreadable> {
        let encoded = match self.format {
            UNSEALED_RESPONSE => &*self.headers,
            RESPONSE => self.unsealed(id)?,
            other => return Err(Unreadable::Format(other)),
        };
        let status = u16::try_from(self.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.filter(|status| !status.is_informational()).ok_or(Unreadable::Status(self.status))?;
        let headers = decode(encoded).ok_or(Unreadable::Headers)?;
        Ok((status, headers, self.body))
    }

    /// The column `headers` after its checksum, which must be right.
    fn unsealed(&self, id: &RecordId) -> Result<&[u8], Unreadable> {
        let (sealed, rest) = self.headers.split_first_chunk::<8>().ok_or(Unreadable::Checksum)?;
        let whole = *sealed == checksum(id, self.format, self.status, rest, &self.body);
        if whole { Ok(rest) } else { Err(Unreadable::Checksum) }
    }
}

/// Detects damage, not forgery: it has no secret. The identifier is part of it, so a row cannot be moved to another key.
/// The fingerprint is not: an attempt with external effects writes it before, and a recovery does not know it.
fn checksum(id: &RecordId, format: i16, status: i16, headers: &[u8], body: &[u8]) -> [u8; 8] {
    let (format, status) = (format.to_be_bytes(), status.to_be_bytes());
    let digest = Digest::of("record", [id.as_bytes(), &format, &status, headers, body]);
    digest.as_bytes().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scope::ScopeId;

    fn id(key: &[u8]) -> RecordId {
        RecordId::of_key(ScopeId::new("ada").digest().expect("a scope"), key)
    }

    fn response() -> Record {
        let headers = [(http::HeaderName::from_static("x"), http::HeaderValue::from_static("1"))].into_iter().collect();
        let record =
            Record::new(&id(b"order-1"), vec![1], StatusCode::CREATED, &headers, "body".into(), SetCookie::Replay);
        record.expect("a record")
    }

    #[test]
    fn b20_the_formats_are_pinned() {
        let golden = Record {
            fingerprint: vec![1],
            format: 3,
            status: 201,
            headers: b"\x5b\x44\xc9\xd9\xc0\x84\x0b\xa5\0\0\0\x01x\0\0\0\x011".to_vec(),
            body: Bytes::from_static(b"body"),
        };
        assert!(response() == golden);
        let golden = Record {
            fingerprint: vec![4],
            format: 4,
            status: 0,
            headers: b"\x1f\xca\xdd\xa7\x4f\x34\xde\x53".to_vec(),
            body: Bytes::from_static(b"[1]"),
        };
        assert!(Record::of_value(&id(b"order-1"), vec![4], b"[1]".to_vec()) == golden);
        assert_eq!(golden.value(&id(b"order-1")), Ok(&b"[1]"[..]));
    }

    #[test]
    fn b20_the_first_formats_are_still_read() {
        let response = Record {
            fingerprint: vec![1],
            format: 1,
            status: 201,
            headers: b"\0\0\0\x01x\0\0\0\x011".to_vec(),
            body: Bytes::from_static(b"body"),
        };
        let (status, headers, body) = response.read(&id(b"order-1")).expect("a response");
        assert_eq!((status.as_u16(), headers["x"].as_bytes(), &*body), (201, &b"1"[..], &b"body"[..]));
        let body = Bytes::from_static(b"[1]");
        let value = Record { fingerprint: vec![4], format: 2, status: 0, headers: Vec::new(), body };
        assert_eq!(value.value(&id(b"order-1")), Ok(&b"[1]"[..]));
    }

    #[test]
    fn a_record_of_another_key_or_with_any_changed_bit_is_unreadable() {
        let own = id(b"order-1");
        assert!(response().read(&own).is_ok());
        assert_eq!(response().read(&id(b"order-2")).err(), Some(Unreadable::Checksum));
        let value = Record::of_value(&own, vec![4], b"[1]".to_vec());
        assert_eq!(value.value(&id(b"order-2")), Err(Unreadable::Checksum));
        for bit in 0..8 {
            for at in 0..response().headers.len() {
                let mut damaged = response();
                damaged.headers[at] ^= 1 << bit;
                assert_eq!(damaged.read(&own).err(), Some(Unreadable::Checksum), "headers {at}");
            }
            for at in 0..response().body.len() {
                let mut body = response().body.to_vec();
                body[at] ^= 1 << bit;
                let damaged = Record { body: body.into(), ..response() };
                assert_eq!(damaged.read(&own).err(), Some(Unreadable::Checksum), "body {at}");
            }
            for record in [response(), value.clone()] {
                let damaged = Record { status: record.status ^ 1 << bit, ..record.clone() };
                assert!(damaged.clone().read(&own).is_err() && damaged.value(&own).is_err(), "status");
                let damaged = Record { format: record.format ^ 1 << bit, ..record };
                assert!(damaged.clone().read(&own).is_err() && damaged.value(&own).is_err(), "format");
            }
        }
    }

    #[test]
    fn what_no_response_has_is_an_error() {
        let unsealed = Record { format: 1, headers: Vec::new(), ..response() };
        let read = |record: Record| record.read(&id(b"order-1")).err();
        assert_eq!(read(unsealed.clone()), None);
        for status in [i16::MIN, -1, 0, 7, 99, 100, 101, 199, 1000, i16::MAX] {
            assert_eq!(read(Record { status, ..unsealed.clone() }), Some(Unreadable::Status(status)));
        }
        assert_eq!(read(Record { headers: vec![0], ..unsealed.clone() }), Some(Unreadable::Headers));
        assert_eq!(read(Record { format: 9, ..unsealed }), Some(Unreadable::Format(9)));
    }
}
