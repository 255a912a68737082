//! The trait `MessageId`: the id of a message or an event at its source.
//! A missing id is an error. Otherwise all messages without an id would be duplicates of one message.

use std::{borrow::Cow, rc::Rc, sync::Arc};

/// The id of a message, equal at every delivery. Implemented for strings, byte slices and integers, and for an `Option`
/// of them. `None` and an empty string are a missing id.
///
/// For other types, pass a string: `key = message.id.to_string()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the id of a message",
    label = "not an id",
    note = "implemented for strings, byte slices, integers and `Option`s of them; call `.to_string()` on other types"
)]
pub trait MessageId {
    /// The bytes of the id; `None` if it is missing.
    fn message_id(&self) -> Option<Cow<'_, [u8]>>;
}

/// Types that consist of bytes.
macro_rules! bytes {
    ($($Type:ty: $bytes:ident,)*) => {$(
        impl MessageId for $Type {
            fn message_id(&self) -> Option<Cow<'_, [u8]>> {
                Some(Cow::Borrowed(self.$bytes()))
            }
        }
    )*};
}

bytes! {
    str: as_bytes,
    String: as_bytes,
    [u8]: as_ref,
    Vec<u8>: as_ref,
    bytes::Bytes: as_ref,
}

/// Integers, as decimal digits: the width of the type does not count.
macro_rules! numbers {
    ($($Type:ty)*) => {$(
        impl MessageId for $Type {
            fn message_id(&self) -> Option<Cow<'_, [u8]>> {
                Some(Cow::Owned(self.to_string().into_bytes()))
            }
        }
    )*};
}

numbers! { i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }

impl<T: MessageId> MessageId for Option<T> {
    fn message_id(&self) -> Option<Cow<'_, [u8]>> {
        self.as_ref().and_then(T::message_id)
    }
}

/// References and smart pointers to an id.
macro_rules! pointers {
    ($($Pointer:ty,)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: MessageId + ?Sized> MessageId for $Pointer {
            fn message_id(&self) -> Option<Cow<'_, [u8]>> {
                T::message_id(self)
            }
        }
    )*};
}

pointers! { &T, Box<T>, Rc<T>, Arc<T>, }

/// The id of a message or an event, owned; `None` if it is missing.
pub struct OwnedMessageId(pub(crate) Option<Vec<u8>>);

/// The id that the attribute's `key` names. A function, so that rustc reports a wrong type at the argument.
pub fn message_id_of<I: MessageId + ?Sized>(id: &I) -> OwnedMessageId {
    OwnedMessageId(id.message_id().filter(|id| !id.is_empty()).map(Cow::into_owned))
}

impl MessageId for OwnedMessageId {
    fn message_id(&self) -> Option<Cow<'_, [u8]>> {
        self.0.as_deref().map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: impl MessageId) -> Option<Vec<u8>> {
        id.message_id().map(Cow::into_owned)
    }

    #[test]
    fn one_id_is_the_same_in_every_type_that_holds_it() {
        let text = Some(b"17".to_vec());
        for id in [of("17"), of("17".to_owned()), of(17_u8), of(17_i64), of(Some("17")), of(b"17".to_vec())] {
            assert_eq!(id, text);
        }
        let borrowed = &"17";
        assert_eq!(of(borrowed), text);
        assert_eq!(of(Box::<str>::from("17")), of(Arc::<str>::from("17")));
        assert_eq!(of(-1), Some(b"-1".to_vec()));
    }

    #[test]
    fn none_is_missing() {
        assert_eq!(of(None::<String>), None);
        assert_eq!(of(Some(None::<u8>)), None);
    }
}
