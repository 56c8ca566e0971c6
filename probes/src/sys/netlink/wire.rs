//! The wire format of netlink: messages and attributes, walked without trust in any length
//! (`uapi/linux/netlink.h`, `Documentation/userspace-api/netlink/intro.rst`).

/// Length of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Length of `struct nlattr`.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// `NLA_TYPE_MASK`: the type of an attribute without its flags.
const TYPE_MASK: u16 = 0x3fff;

/// The kernel's `NLMSG_ERROR`.
pub const ERROR: u16 = 2;
/// The kernel's `NLMSG_DONE`, the end of a dump.
pub const DONE: u16 = 3;
/// `NLM_F_DUMP_INTR`: the list changed while it was dumped.
pub const DUMP_INTERRUPTED: u16 = 0x10;

/// One message: its type, its flags and what follows the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// Everything behind the header.
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// The `errno` in an error or in the end of a dump; 0 is success.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let code = self.payload.first_chunk::<4>().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        code.saturating_neg()
    }
}

/// Walks the messages in `bytes`; ends at the first one that does not fit.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk::<4>()?)).ok()?;
        let whole = rest.get(..length)?;
        let message = Message {
            kind: u16_at(whole, 4)?,
            flags: u16_at(whole, 6)?,
            payload: whole.get(HEADER_BYTES..)?,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// One attribute: its type without flags, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// `nla_type` without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
    pub kind: u16,
    /// The value; nested attributes are walked with [`attributes`] again.
    pub value: &'a [u8],
}

impl Attribute<'_> {
    /// The value as `u8`.
    #[must_use]
    pub fn u8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    /// The value as `u16` in the machine's byte order.
    #[must_use]
    pub fn u16(&self) -> Option<u16> {
        u16_at(self.value, 0)
    }

    /// The value as `u32` in the machine's byte order.
    #[must_use]
    pub fn u32(&self) -> Option<u32> {
        self.value.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    /// The value as text up to its first NUL; what is not UTF-8 is escaped. `None` if empty.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        text(self.value)
    }
}

/// Walks the attributes in `bytes`; ends at the first one that does not fit.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind, value })
    })
}

/// Overwrites with zeros the values of the attributes `kind` that stand in the messages of `bytes`,
/// behind a header of `header_bytes`.
pub fn blank(bytes: &mut [u8], header_bytes: usize, kind: u16) {
    let mut rest = bytes;
    while let Some(length) = rest.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes)) {
        let Some(length) = usize::try_from(length).ok().filter(|n| *n >= HEADER_BYTES) else {
            return;
        };
        let Some((message, behind)) = rest.split_at_mut_checked(length) else { return };
        if let Some(body) = message.get_mut(HEADER_BYTES + header_bytes..) {
            blank_attributes(body, kind);
        }
        rest = behind.get_mut(length.next_multiple_of(4) - length..).unwrap_or_default();
    }
}

fn blank_attributes(bytes: &mut [u8], kind: u16) {
    let mut rest = bytes;
    while let (Some(length), Some(found)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        let Some((attribute, behind)) = rest.split_at_mut_checked(length) else { return };
        let Some(value) = attribute.get_mut(ATTRIBUTE_HEADER_BYTES..) else { return };
        if found & TYPE_MASK == kind {
            value.fill(0);
        }
        rest = behind.get_mut(length.next_multiple_of(4) - length..).unwrap_or_default();
    }
}

/// Text up to the first NUL, as C strings in fixed fields stand; `None` if empty.
#[must_use]
pub fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = crate::text::escape_non_utf8(&bytes[..end]);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The `u16` at `offset` in the machine's byte order.
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk::<2>().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
pub(crate) mod testing {
    /// A message of type `kind` with `payload`.
    pub(crate) fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len() + super::HEADER_BYTES).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// An attribute of type `kind` with `value`, padded.
    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + super::ATTRIBUTE_HEADER_BYTES).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Feeds every prefix of `good` and of noise to `parse`, which must not panic.
    pub(crate) fn survives_any_bytes(good: &[u8], parse: impl Fn(&[u8])) {
        for end in 0..=good.len() {
            parse(&good[..end]);
        }
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        for _ in 0..2000 {
            let mut bytes = good.to_vec();
            for _ in 0..=noise() % 8 {
                let at = (usize::from(noise()) << 8 | usize::from(noise())) % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = noise();
                }
            }
            parse(&bytes);
        }
        let random: Vec<u8> = (0..4096).map(|_| noise()).collect();
        for start in 0..random.len() {
            parse(&random[start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{attribute, message};
    use super::*;

    #[test]
    fn messages_and_attributes_are_walked_with_their_padding() {
        let mut payload = attribute(1, b"eth0\0");
        payload.extend(attribute(0x8000 | 4, &1500_u32.to_ne_bytes()));
        let mut bytes = message(16, &payload);
        bytes.extend(message(DONE, &(-22_i32).to_ne_bytes()));
        let all: Vec<Message> = messages(&bytes).collect();
        assert_eq!(all.len(), 2);
        let found: Vec<Attribute> = attributes(all[0].payload).collect();
        assert_eq!(found[0].text().as_deref(), Some("eth0"));
        assert_eq!((found[1].kind, found[1].u32()), (4, Some(1500)));
        assert_eq!((all[1].kind, all[1].errno()), (DONE, 22));
    }

    #[test]
    fn lengths_that_lie_end_the_walk() {
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(messages(&[0xff; 64]).count(), 0);
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        let short = message(16, b"abcd");
        assert_eq!(messages(&short[..short.len() - 1]).count(), 0);
        assert_eq!(attributes(&[0xff, 0xff, 1, 0, 0, 0]).count(), 0);
    }
}
