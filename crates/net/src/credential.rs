//! What proves who dials: the secret that the nodes of a cluster share, or a token.
//!
//! Neither the secret nor the secret half of a token ever goes over a connection. A proof is made for one connection: for random bytes of
//! the listener, for what both ends have said, and with TLS for the keys of that very session, so that it is of no use on another one.
//!
//! Nothing here prints a secret. What a token says is for others to read.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};

/// What the nodes of a cluster share, and nobody else may know: who knows it is taken for a node.
#[derive(Clone)]
pub struct Secret(Arc<hmac::Key>);

/// What a user shows: claims with what a seal of the cluster makes of them, and the secret half of the holder's pair of keys.
#[derive(Clone)]
pub struct Token {
    shown: Arc<[u8]>,
    holder: Arc<Holder>,
}

/// A pair of keys: of a token's holder, or a seal.
pub struct Holder {
    seed: [u8; KEY_SIZE],
    pair: Ed25519KeyPair,
}

/// By what a dialer proves who it is.
#[derive(Clone, Debug, Default)]
pub enum Credential {
    /// It cannot.
    #[default]
    None,
    /// It knows the cluster's secret. It talks to nobody who does not.
    Secret(Secret),
    /// It has a token.
    Token(Token),
}

/// A proof, as a listener has it before it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Proof<'a> {
    /// For which bytes it has to be.
    pub(crate) said: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// A token that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    said: &'a [u8],
    signature: &'a [u8],
    /// The claims, and what the seal makes of them.
    pub token: &'a [u8],
}

impl Secret {
    /// A secret of so many bytes of text: 16 at least.
    pub fn new(text: &[u8]) -> io::Result<Self> {
        let text = text.trim_ascii();
        if text.len() < SECRET_SIZE_MIN || text.len() > SECRET_SIZE_MAX {
            return Err(invalid(format!(
                "a cluster's secret has {SECRET_SIZE_MIN} to {SECRET_SIZE_MAX} bytes, and not {}; make one with 'tyr secret'",
                text.len()
            )));
        }
        Ok(Secret(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, text))))
    }

    /// Reads a secret from a file that nobody but its owner and group may read.
    pub fn load(path: &Path) -> io::Result<Self> {
        Secret::new(read_secret(path)?.as_bytes()).map_err(|error| told(path, &error))
    }

    /// Random text that can be a secret.
    pub fn random_text() -> io::Result<String> {
        Ok(to_hex(&random::<KEY_SIZE>()?))
    }

    /// The pair of keys that this secret and a salt make for what has a name: whoever knows only name and salt cannot make them.
    pub fn seal(&self, name: &[u8], salt: &[u8; KEY_SIZE]) -> io::Result<Holder> {
        let mut seed = [0; KEY_SIZE];
        seed.copy_from_slice(self.tag([SEAL, salt, name]).as_ref());
        Holder::of(seed)
    }

    fn proof(&self, whose: &[u8], nonce: &[u8], said: &[u8]) -> hmac::Tag {
        self.tag([whose, nonce, said])
    }

    fn tag(&self, parts: [&[u8]; 3]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        parts.into_iter().for_each(|part| context.update(part));
        context.sign()
    }
}

impl Token {
    /// Puts together what the cluster has made and the keys of the holder.
    pub fn new(shown: &[u8], holder: Holder) -> Self {
        Token { shown: shown.into(), holder: Arc::new(holder) }
    }

    /// Reads the text of a token.
    pub fn parse(text: &str) -> io::Result<Self> {
        let wrong =
            || invalid("this is no token: it should begin with tyr1- and have been copied as a whole");
        let bytes = text.trim().strip_prefix(TOKEN_PREFIX).and_then(from_hex).ok_or_else(wrong)?;
        let (seed, shown) = bytes.split_first_chunk::<KEY_SIZE>().ok_or_else(wrong)?;
        if shown.len() < SIGNATURE_SIZE || shown.len() > TOKEN_SIZE_MAX {
            return Err(wrong());
        }
        Ok(Token::new(shown, Holder::of(*seed)?))
    }

    /// Reads a token from a file that nobody but its owner and group may read.
    pub fn load(path: &Path) -> io::Result<Self> {
        Token::parse(&read_secret(path)?).map_err(|error| told(path, &error))
    }

    /// The text of it, which is as secret as a password.
    pub fn to_text(&self) -> String {
        format!("{TOKEN_PREFIX}{}{}", to_hex(&self.holder.seed), to_hex(&self.shown))
    }

    /// The claims in it.
    pub fn claims(&self) -> &[u8] {
        claims_of(&self.shown).map_or(&[], |(claims, _)| claims)
    }

    /// Whether a seal stands for the claims.
    pub fn is_sealed_by(&self, seal: &[u8; KEY_SIZE]) -> bool {
        is_sealed_by(&self.shown, seal)
    }

    /// Whether its secret half is that of these keys.
    pub fn is_held_by(&self, holder: &[u8; KEY_SIZE]) -> bool {
        self.holder.public() == *holder
    }
}

impl Holder {
    /// A new pair of keys.
    pub fn generate() -> io::Result<Self> {
        Holder::of(random()?)
    }

    /// The pair of a secret half.
    pub fn of(seed: [u8; KEY_SIZE]) -> io::Result<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| invalid("these are no keys"))?;
        Ok(Holder { seed, pair })
    }

    /// The secret half.
    pub fn seed(&self) -> [u8; KEY_SIZE] {
        self.seed
    }

    /// The public half.
    pub fn public(&self) -> [u8; KEY_SIZE] {
        let mut public = [0; KEY_SIZE];
        public.copy_from_slice(self.pair.public_key().as_ref());
        public
    }

    /// Claims with what these keys make of them: what is shown of a token.
    pub fn seal(&self, claims: &[u8]) -> Vec<u8> {
        [claims, self.pair.sign(&[SEALED, claims].concat()).as_ref()].concat()
    }
}

impl Credential {
    /// Whether a listener has to prove itself, too.
    pub(crate) fn is_mutual(&self) -> bool {
        matches!(self, Credential::Secret(_))
    }

    /// The proof for what was said, and the listener's that is expected; `None` if there is nothing to prove anything with.
    pub(crate) fn prove(&self, said: &[u8]) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(match self {
            Credential::None => None,
            Credential::Secret(secret) => {
                let nonce = random::<KEY_SIZE>()?;
                let own = secret.proof(DIALER, &nonce, said);
                let expected = secret.proof(LISTENER, &nonce, said).as_ref().to_vec();
                Some(([&[BY_SECRET], &nonce[..], own.as_ref()].concat(), expected))
            }
            Credential::Token(token) => {
                let signature = token.holder.pair.sign(&[DIALER, said].concat());
                Some(([&[BY_TOKEN], signature.as_ref(), &token.shown].concat(), Vec::new()))
            }
        })
    }
}

impl<'a> Proof<'a> {
    /// If it proves that its maker knows the secret: the listener's proof.
    pub fn by_secret(&self, secret: &Secret) -> Option<Vec<u8>> {
        let (kind, rest) = self.body.split_first()?;
        let (nonce, tag) = rest.split_at_checked(KEY_SIZE).filter(|_| *kind == BY_SECRET)?;
        let signed = [DIALER, nonce, self.said].concat();
        hmac::verify(&secret.0, &signed, tag).ok()?;
        Some(secret.proof(LISTENER, nonce, self.said).as_ref().to_vec())
    }

    /// The token that is shown, if one is.
    pub fn shown(&self) -> Option<Shown<'a>> {
        let (kind, rest) = self.body.split_first()?;
        let (signature, token) = rest.split_at_checked(SIGNATURE_SIZE).filter(|_| *kind == BY_TOKEN)?;
        Some(Shown { said: self.said, signature, token })
    }
}

impl<'a> Shown<'a> {
    /// The claims, which nobody stands for yet.
    pub fn claims(&self) -> Option<&'a [u8]> {
        claims_of(self.token).map(|(claims, _)| claims)
    }

    /// Whether a seal stands for the claims.
    pub fn is_sealed_by(&self, seal: &[u8; KEY_SIZE]) -> bool {
        is_sealed_by(self.token, seal)
    }

    /// Whether whoever shows it holds the secret half of these keys.
    pub fn is_held_by(&self, holder: &[u8; KEY_SIZE]) -> bool {
        let signed = [DIALER, self.said].concat();
        UnparsedPublicKey::new(&ED25519, holder).verify(&signed, self.signature).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holder(..)")
    }
}

fn is_sealed_by(token: &[u8], seal: &[u8; KEY_SIZE]) -> bool {
    claims_of(token).is_some_and(|(claims, signature)| {
        UnparsedPublicKey::new(&ED25519, seal).verify(&[SEALED, claims].concat(), signature).is_ok()
    })
}

fn claims_of(token: &[u8]) -> Option<(&[u8], &[u8])> {
    token.split_at_checked(token.len().checked_sub(SIGNATURE_SIZE)?)
}

/// Random bytes that nobody can guess.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(bytes)
}

/// The text of a file that keeps a secret. One that everybody may read is refused: it is no secret any more.
fn read_secret(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path).map_err(|error| told(path, &error))?;
    check_closed(path)?;
    Ok(text)
}

/// Fails if everybody may read a file that is to keep a secret.
pub(crate) fn check_closed(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path).map_err(|error| told(path, &error))?.mode();
    if mode & 0o007 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "'{}' is open to every user of this machine, so what it keeps is no secret; chmod 600 it, and if others can have read \
             it, make another one",
            path.display()
        ),
    ))
}

fn told(path: &Path, error: &io::Error) -> io::Error {
    let path: PathBuf = path.into();
    match error.kind() {
        io::ErrorKind::PermissionDenied if error.get_ref().is_some() => {
            io::Error::new(error.kind(), error.to_string())
        }
        kind => io::Error::new(kind, format!("'{}': {error}", path.display())),
    }
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).expect("a nibble is a digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |letter: u8| char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

/// How the text of a token begins: the version of what follows.
const TOKEN_PREFIX: &str = "tyr1-";
const KEY_SIZE: usize = 32;
const SIGNATURE_SIZE: usize = 64;
/// A longer token does not fit a handshake.
pub const TOKEN_SIZE_MAX: usize = 900;
const SECRET_SIZE_MIN: usize = 16;
const SECRET_SIZE_MAX: usize = 1024;
const BY_SECRET: u8 = 1;
const BY_TOKEN: u8 = 2;
/// What is signed or proved for one purpose is of no use for another one.
const DIALER: &[u8] = b"Tyr dialer 1:";
const LISTENER: &[u8] = b"Tyr listener 1:";
const SEALED: &[u8] = b"Tyr token 1:";
const SEAL: &[u8] = b"Tyr seal 1:";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SAID: &[u8] = b"hello and challenge";

    fn token(seal: &Holder) -> Token {
        let holder = Holder::generate().unwrap();
        let claims = [b"claims", &holder.public()[..]].concat();
        Token::new(&seal.seal(&claims), holder)
    }

    fn holder_of(shown: &Shown<'_>) -> [u8; KEY_SIZE] {
        shown.claims().unwrap()[6..].try_into().unwrap()
    }

    #[test]
    fn who_knows_the_secret_proves_that_to_the_other() {
        let secret = Secret::new(b"0123456789abcdef").unwrap();
        let (body, expected) = Credential::Secret(secret.clone()).prove(SAID).unwrap().unwrap();
        let proof = Proof { said: SAID, body: &body };
        assert_eq!(proof.by_secret(&secret).unwrap(), expected);
        assert!(proof.shown().is_none());
        let other = Secret::new(b"0123456789abcdeF").unwrap();
        assert_eq!(proof.by_secret(&other), None, "another secret");
        assert_eq!(Proof { said: b"elsewhere", body: &body }.by_secret(&secret), None, "another connection");
        assert_ne!(&body[33..], &expected[..], "what the dialer proves is not what the listener does");
    }

    #[test]
    fn a_seal_is_made_of_the_secret_its_name_and_its_salt() {
        let secret = Secret::new(b"0123456789abcdef").unwrap();
        let other = Secret::new(b"0123456789abcdeF").unwrap();
        let public =
            |secret: &Secret, name: &[u8], salt| secret.seal(name, &[salt; KEY_SIZE]).unwrap().public();
        let seal = public(&secret, b"name", 1);
        assert_eq!(public(&secret, b"name", 1), seal, "by every node that leads");
        for another in [public(&other, b"name", 1), public(&secret, b"eman", 1), public(&secret, b"name", 2)]
        {
            assert_ne!(another, seal);
        }
    }

    #[test]
    fn a_token_is_good_for_its_holder_on_one_connection() {
        let seal = Holder::generate().unwrap();
        let token = Token::parse(&token(&seal).to_text()).unwrap();
        let (body, expected) = Credential::Token(token).prove(SAID).unwrap().unwrap();
        assert!(expected.is_empty());
        let shown = Proof { said: SAID, body: &body }.shown().unwrap();
        assert!(shown.is_sealed_by(&seal.public()) && shown.is_held_by(&holder_of(&shown)));
        assert!(!shown.is_sealed_by(&Holder::generate().unwrap().public()), "another cluster's seal");
        let replayed = Proof { said: b"another connection", body: &body }.shown().unwrap();
        assert!(!replayed.is_held_by(&holder_of(&replayed)));
        for place in 65..body.len() {
            let mut altered = body.clone();
            altered[place] ^= 1;
            let shown = Proof { said: SAID, body: &altered }.shown().unwrap();
            assert!(!shown.is_sealed_by(&seal.public()), "byte {place} can be altered");
        }
    }

    #[test]
    fn what_is_no_token_or_secret_is_refused() {
        let whole = token(&Holder::generate().unwrap()).to_text();
        for wrong in ["", "tyr1-", "tyr1-00", "tyr2-00", &whole[..whole.len() - 1], &whole[..60]] {
            assert!(Token::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Secret::new(b"too short").is_err());
        assert!(Secret::new(&[b'x'; 2000]).is_err());
        assert!(Secret::new(Secret::random_text().unwrap().as_bytes()).is_ok());
    }

    #[test]
    fn a_file_that_everybody_may_read_keeps_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, "0123456789abcdef\n").unwrap();
        for (mode, is_secret) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = Secret::load(&path);
            assert_eq!(read.is_ok(), is_secret, "{mode:o}");
            if let Err(error) = read {
                let text = error.to_string();
                assert!(text.contains("chmod 600") && !text.contains("0123456789"), "{text}");
            }
        }
    }

    #[test]
    fn nothing_shows_what_is_secret() {
        let seal = Holder::of([0xab; KEY_SIZE]).unwrap();
        let token = Token::new(&seal.seal(b"claims"), Holder::of([0xab; KEY_SIZE]).unwrap());
        let secret = Secret::new(b"abababababababababab").unwrap();
        let shown = format!("{seal:?} {token:?} {secret:?} {:?}", Credential::Secret(secret.clone()));
        assert!(!shown.contains("ab") && !shown.contains("171"), "{shown}");
    }
}
