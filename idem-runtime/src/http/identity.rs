//! From a request to the claim that it makes: whose key it is, which key, and the fingerprint of the request.

use crate::{
    app::problem::Code,
    backend::{Backend, ClaimRequest},
    http::request::{ExtractedRequest, RequestContext},
    model::{
        digest::Digest,
        fingerprint::{Comparison, Fingerprint},
        handler_options::ScopeRule,
        idempotency_key::{HEADER, Key, KeyError},
        message_id::EventId,
        options::{FingerprintRule, KeyPresence},
        record_id::RecordId,
        scope::ScopeId,
    },
};

/// Where a request's key is.
pub(super) enum KeySource {
    /// In its `Idempotency-Key` header.
    Header,
    /// In the event that it delivers.
    Event(EventId),
}

/// Whose key a request carries, and where.
pub(super) struct Identity {
    pub(super) scope: ScopeId,
    pub(super) key: KeySource,
}

impl Identity {
    /// The claim to make; `None` if the request is not protected.
    ///
    /// # Errors
    /// The code of the response to a request without a usable key or scope.
    pub(super) fn claim_request<Db: Backend, T>(
        &self,
        request: &ExtractedRequest<T>,
        context: &RequestContext<Db>,
    ) -> Result<Option<ClaimRequest>, Code> {
        let id = match &self.key {
            KeySource::Header => self.by_header(request, context)?,
            KeySource::Event(EventId(None)) => return Err(Code::EventIdMissing),
            KeySource::Event(EventId(Some(id))) => {
                Some(RecordId::of_event(self.scope()?, context.handler.operation, id))
            }
        };
        let Some(id) = id else { return Ok(None) };
        let (fingerprint, bytes) = self.fingerprints(request, context);
        let (operation, retention) = (context.handler.operation, context.policy.retention);
        Ok(Some(ClaimRequest { id, fingerprint, bytes, operation, retention }))
    }

    /// The identifier by scope and header; `None` if the method is not protected, or an optional key is missing.
    fn by_header<Db: Backend, T>(
        &self,
        request: &ExtractedRequest<T>,
        context: &RequestContext<Db>,
    ) -> Result<Option<RecordId>, Code> {
        let (parts, policy) = (&request.parts, &context.policy);
        if !policy.methods.protect(&parts.method) {
            if parts.headers.contains_key(HEADER) {
                let ignored_keys = &context.idempotency.app.ignored_keys;
                ignored_keys.warn(context.handler.operation, &parts.method, request.route());
            }
            return Ok(None);
        }
        let key = match Key::from_headers(&parts.headers, policy.key_format) {
            Ok(key) => key,
            Err(KeyError::Missing) if policy.key == KeyPresence::Optional => return Ok(None),
            Err(KeyError::Missing) => return Err(Code::KeyMissing),
            Err(KeyError::Malformed) => return Err(Code::KeyMalformed),
        };
        let scope = self.scope()?;
        Ok(Some(match context.handler.scope {
            ScopeRule::Account => RecordId::of_key(scope, key.as_bytes()),
            ScopeRule::AccountAndEndpoint => {
                let (method, route) = request.endpoint();
                RecordId::of_key_at_endpoint(scope, method.as_bytes(), route.as_bytes(), key.as_bytes())
            }
        }))
    }

    fn scope(&self) -> Result<&Digest, Code> {
        self.scope.digest().ok_or_else(|| {
            tracing::error!("`scope_id` gave an empty part: reject callers without an identity in the extractor");
            Code::ScopeEmpty
        })
    }

    /// The fingerprint by the handler's rule, and the one by bytes. The body is hashed once where the two are the same.
    fn fingerprints<Db: Backend, T>(
        &self,
        request: &ExtractedRequest<T>,
        context: &RequestContext<Db>,
    ) -> (Fingerprint, Fingerprint) {
        if self.by_id_alone(context) {
            return (Fingerprint::of_nothing(), Fingerprint::of_nothing());
        }
        let subject = request.subject();
        let bytes = subject.fingerprint(FingerprintRule::Bytes);
        match context.policy.fingerprint {
            FingerprintRule::Bytes => (bytes, bytes),
            rule => (subject.fingerprint(rule), bytes),
        }
    }

    /// Compares the request with a stored fingerprint, by the rule that made that one.
    pub(super) fn compare<Db: Backend, T>(
        &self,
        request: &ExtractedRequest<T>,
        context: &RequestContext<Db>,
        claim: &ClaimRequest,
        stored: &[u8],
    ) -> Comparison {
        if self.by_id_alone(context) {
            return Comparison::Same;
        }
        request.subject().compare(claim.fingerprint, stored, context.policy.fingerprint)
    }

    /// Whether equal keys are equal requests. Events are, unless their handler names a fingerprint: senders change what
    /// surrounds an id at every delivery.
    fn by_id_alone<Db: Backend>(&self, context: &RequestContext<Db>) -> bool {
        matches!(self.key, KeySource::Event(_)) && !context.handler.names_fingerprint()
    }
}
