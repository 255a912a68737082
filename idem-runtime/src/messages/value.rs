//! The value of a consumer: what its effect returned, stored as JSON.
//! Every duplicate delivery gets it.

use serde::{Serialize, de::DeserializeOwned};

/// A value that can be stored, and read back.
#[diagnostic::on_unimplemented(
    message = "the value of a consumer is stored, and `{Self}` cannot be stored",
    label = "not serialisable, or it borrows",
    note = "derive serde's `Serialize` and `Deserialize` (duplicates receive the stored value), or return `Result<(), E>`"
)]
pub trait Storable: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Storable for T {}

/// How a value is stored and read back. The expansion names it once, so that a type without it is one error.
pub struct Form<T> {
    write: fn(&T) -> serde_json::Result<Vec<u8>>,
    read: fn(&[u8]) -> serde_json::Result<T>,
}

impl<T> Clone for Form<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Form<T> {}

impl<T> Form<T> {
    pub(super) fn write(&self, value: &T) -> serde_json::Result<Vec<u8>> {
        (self.write)(value)
    }

    pub(super) fn read(&self, json: &[u8]) -> serde_json::Result<T> {
        (self.read)(json)
    }
}

/// By serde, as JSON.
#[must_use]
pub fn form<T: Storable>() -> Form<T> {
    Form { write: |value| serde_json::to_vec(value), read: |json| serde_json::from_slice(json) }
}
