//! The body of a request. It accepts only what the network can charge and the database can store.
//! A rejection stores nothing, so the key stays free for the corrected request.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// The charge that a client requests. `Json<NewCharge>` rejects invalid values *before* the card is charged: if the row
/// cannot be written after the charge, the money has to be returned.
#[derive(Serialize, Deserialize)]
pub(crate) struct NewCharge {
    /// In the currency's smallest unit.
    pub(crate) amount: NonZeroU32,
    pub(crate) currency: Word,
    pub(crate) source: Word,
}

/// A short string of printable ASCII characters.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Word(String);

impl Word {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Word {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let short = (1..=100).contains(&text.len());
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if short && printable { Ok(Self(text)) } else { Err("must be 1 to 100 printable characters without spaces") }
    }
}
