//! The token for the server, and the header that carries it.

use crate::secret::Secret;

/// Most redirects of a GET.
const MAX_REDIRECTS: u32 = 5;

/// The header that carries the token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenHeader {
    /// `Authorization: Bearer …`
    #[default]
    Bearer,
    /// `X-Secret-Key: …`, which assisted-service expects.
    SecretKey,
}

/// The token and the header that carries it.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) header: TokenHeader,
    pub(super) secret: Secret,
}

impl Token {
    /// The most redirects of a request that carries `token`. The HTTP library removes `Authorization` before it follows
    /// one to another host, but no other header.
    pub(super) fn max_redirects(token: Option<&Self>) -> u32 {
        match token {
            Some(Self { header: TokenHeader::SecretKey, .. }) => 0,
            _ => MAX_REDIRECTS,
        }
    }
}
