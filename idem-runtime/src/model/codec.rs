//! The length-prefixed fields that stored encodings consist of.
//! A length is 4 bytes, big-endian; stored data rests on it, so it never changes.

/// Appends a field after its length; `None` if it is longer than 4 bytes can say.
pub(crate) fn put_field(encoded: &mut Vec<u8>, field: &[u8]) -> Option<()> {
    encoded.extend_from_slice(&u32::try_from(field.len()).ok()?.to_be_bytes());
    encoded.extend_from_slice(field);
    Some(())
}

/// Takes the first field off.
pub(crate) fn take_field<'e>(encoded: &mut &'e [u8]) -> Option<&'e [u8]> {
    let (length, rest) = encoded.split_first_chunk::<4>()?;
    let (field, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *encoded = rest;
    Some(field)
}
