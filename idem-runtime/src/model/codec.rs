//! The length-prefixed fields of stored encodings.
//! A length is 4 bytes, big-endian. Stored data depends on it: never change it.

/// Appends the field's length and the field; `None` if the length does not fit 4 bytes.
pub(crate) fn put_field(encoded: &mut Vec<u8>, field: &[u8]) -> Option<()> {
    encoded.extend_from_slice(&u32::try_from(field.len()).ok()?.to_be_bytes());
    encoded.extend_from_slice(field);
    Some(())
}

/// Removes the first field and returns it.
pub(crate) fn take_field<'e>(encoded: &mut &'e [u8]) -> Option<&'e [u8]> {
    let (length, rest) = encoded.split_first_chunk::<4>()?;
    let (field, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *encoded = rest;
    Some(field)
}
