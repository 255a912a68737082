//! A form's parts without the boundary between them: `curl -F` and browsers choose another one for each attempt.
//! The whole body is in memory, so the parser never waits, and the limit of the body is its limit.

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use http::{HeaderMap, header::CONTENT_TYPE};
use multer::Multipart;

use super::digest::Digest;

/// Digests the parts of a `multipart/form-data` body (RFC 7578) in order: of each the headers, by name, and the content.
/// `None` if the body is not such a form, or a broken one.
pub(crate) fn digest(headers: &HeaderMap, body: &Bytes) -> Option<Digest> {
    let boundary = multer::parse_boundary(headers.get(CONTENT_TYPE)?.to_str().ok()?).ok()?;
    let body = stream::iter([Ok::<_, std::convert::Infallible>(body.clone())]);
    let parts = parts(Multipart::new(body, boundary)).now_or_never()?.ok()?;
    Some(Digest::of("form", parts.iter().map(Digest::as_bytes)))
}

async fn parts(mut form: Multipart<'_>) -> multer::Result<Vec<Digest>> {
    let mut parts = Vec::new();
    while let Some(field) = form.next_field().await? {
        let mut headers: Vec<_> = field.headers().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // Stable: values of one name stay in their order.
        headers.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        let content = field.bytes().await?;
        let headers = headers.iter().flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
        parts.push(Digest::of("part", headers.chain([&content[..]])));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, num::u8::ANY, prop_assert, prop_assert_eq, proptest};

    use super::*;

    /// A form as `curl -F` writes it.
    fn form(boundary: &str, parts: &[(String, Vec<u8>)]) -> Option<Digest> {
        let mut body = Vec::new();
        for (name, content) in parts {
            let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend([head.as_bytes(), content, b"\r\n"].concat());
        }
        body.extend(format!("--{boundary}--\r\n").into_bytes());
        let content_type = format!("multipart/form-data; boundary={boundary}").parse().unwrap();
        digest(&HeaderMap::from_iter([(CONTENT_TYPE, content_type)]), &body.into())
    }

    proptest! {
        #[test]
        fn the_boundary_does_not_count_and_all_else_does(
            mut parts in vec(("[a-z]{1,4}", vec(ANY, 0..200)), 1..5),
            a in "[a-z0-9]{30,40}",
            b in "[a-z0-9]{30,40}",
            changed in 0..5_usize,
        ) {
            let first = form(&a, &parts);
            prop_assert!(first.is_some());
            prop_assert_eq!(first, form(&b, &parts));
            let changed = changed % parts.len();
            parts[changed].1.push(b'x');
            prop_assert!(form(&a, &parts) != first);
            let (name, content) = parts[changed].clone();
            parts[changed] = (name + "x", content[..content.len() - 1].to_vec());
            prop_assert!(form(&a, &parts) != first);
        }
    }

    #[test]
    fn what_is_not_a_whole_form_has_no_parts() {
        let digest = |content_type: &'static str, body: &'static str| {
            let content_type = http::HeaderValue::from_static(content_type);
            digest(&HeaderMap::from_iter([(CONTENT_TYPE, content_type)]), &Bytes::from_static(body.as_bytes()))
        };
        let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--";
        assert!(digest("multipart/form-data; boundary=b", part).is_some());
        assert!(digest("multipart/form-data; boundary=b", &part[..part.len() - 5]).is_none());
        assert!(digest("multipart/form-data; boundary=b", "").is_none());
        assert!(digest("multipart/form-data", part).is_none());
        assert!(digest("application/x-www-form-urlencoded", "a=1").is_none());
        assert_eq!(super::digest(&HeaderMap::new(), &Bytes::from_static(part.as_bytes())), None);
    }
}
