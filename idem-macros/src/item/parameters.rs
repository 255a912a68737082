//! The function's parameters in two groups: those by `&mut`, and the others.
//! Which one is the transaction or the attempt depends on the options, so `plan` decides it.

use syn::{PatType, TypeReference};

use super::{function::Function, types};

pub(crate) struct Parameters<'p> {
    /// The parameters by `&mut`. Extractors are not: a correct function has one, the transaction or the attempt.
    pub(crate) tx_params: Vec<TxParam<'p>>,
    /// The others. A consumer takes any parameters there.
    pub(crate) extractors: Vec<&'p PatType>,
}

#[derive(Clone, Copy)]
pub(crate) struct TxParam<'p> {
    pub(crate) parameter: &'p PatType,
    pub(crate) reference: &'p TypeReference,
}

impl<'p> Parameters<'p> {
    pub(crate) fn of(function: &'p Function) -> Self {
        let (mut tx_params, mut extractors) = (Vec::new(), Vec::new());
        for parameter in function.typed() {
            match tx_param(parameter) {
                Some(reference) => tx_params.push(TxParam { parameter, reference }),
                None => extractors.push(parameter),
            }
        }
        Self { tx_params, extractors }
    }
}

/// The type of a parameter by `&mut`.
pub(crate) fn tx_param(parameter: &PatType) -> Option<&TypeReference> {
    types::reference(&parameter.ty).filter(|reference| reference.mutability.is_some())
}
