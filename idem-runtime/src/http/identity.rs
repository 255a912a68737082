//! The identity of a request: its scope, its key and its fingerprint, which make the claim request.
//! A request without a usable key or scope is refused here.

use crate::{
    app::problem::Code,
    backend::{Backend, ClaimRequest, Durability},
    engine::Panicked,
    http::request::{ExtractedRequest, RequestContext},
    model::{
        digest::Digest,
        fingerprint::Fingerprint,
        handler_options::ScopeRule,
        idempotency_key::{HEADER, Key, KeyError},
        message_id::OwnedMessageId,
        options::{FingerprintRule, KeyPresence},
        record_id::RecordId,
        scope::ScopeId,
        subject::Comparison,
    },
};

/// Where the key of a request is.
pub(super) enum KeySource {
    /// In its `Idempotency-Key` header.
    Header,
    /// In the event that it delivers.
    Event(Result<OwnedMessageId, Panicked>),
}

/// The scope of a request, and where its key is.
pub(super) struct Identity {
    pub(super) scope: Result<ScopeId, Panicked>,
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
            KeySource::Event(Err(Panicked)) => return Err(Code::HandlerPanicked),
            KeySource::Event(Ok(OwnedMessageId(None))) => return Err(Code::EventIdMissing),
            KeySource::Event(Ok(OwnedMessageId(Some(id)))) => {
                Some(RecordId::of_event(&self.scope(context)?, context.handler.operation, id))
            }
        };
        let Some(id) = id else { return Ok(None) };
        let (fingerprint, bytes) = self.fingerprints(request, context);
        let (operation, retention) = (context.handler.operation, context.policy.retention);
        let session = context.idempotency.app.sessions.of(operation);
        let durability = match self.key {
            KeySource::Header => Durability::OfSession,
            KeySource::Event(_) => Durability::Demanded,
        };
        Ok(Some(ClaimRequest { id, fingerprint, bytes, operation, retention, durability, session }))
    }

    /// The record's identifier from scope and header; `None` if the method is not protected, or an optional key is
    /// missing.
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
        let scope = &self.scope(context)?;
        Ok(Some(match context.handler.scope {
            ScopeRule::Account => RecordId::of_key(scope, key.as_bytes()),
            ScopeRule::AccountAndEndpoint => {
                RecordId::of_key_at(scope, parts.method.as_str().as_bytes(), request.endpoint(), key.as_bytes())
            }
        }))
    }

    fn scope<Db: Backend>(&self, context: &RequestContext<Db>) -> Result<Digest, Code> {
        let scope = self.scope.as_ref().map_err(|_| Code::HandlerPanicked)?;
        context.idempotency.app.namespace.scope(scope).ok_or_else(|| {
            tracing::error!("`scope_id` returned an empty part: reject callers without an identity in the extractor");
            Code::ScopeEmpty
        })
    }

    /// The fingerprints by the handler's rule and by bytes. If the rule is bytes, the body is hashed once.
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

    /// Compares the request with a stored fingerprint, by the rule that made the stored one.
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

    /// Whether equal keys mean equal requests. For events they do, unless the handler names a fingerprint: senders
    /// change what surrounds an id at every delivery.
    fn by_id_alone<Db: Backend>(&self, context: &RequestContext<Db>) -> bool {
        matches!(self.key, KeySource::Event(_)) && !context.handler.names_fingerprint()
    }
}
