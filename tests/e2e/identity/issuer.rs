//! An external issuer of tokens, with keys of its own, which it publishes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::KeySize,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RsaKeyPair},
};
use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// A key pair.
pub struct Signer {
    pub algorithm: Algorithm,
    pub id: &'static str,
    key: EncodingKey,
}

/// Bytes in front of the RSA key itself in PKCS #8.
const PKCS8_HEADER: usize = 26;

impl Signer {
    pub fn rsa(id: &'static str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der: Pkcs8V1Der<'_> = pair.as_der().expect("its form");
        Self { algorithm: Algorithm::RS256, id, key: EncodingKey::from_rsa_der(&der.as_ref()[PKCS8_HEADER..]) }
    }

    pub fn ec(id: &'static str) -> Self {
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).expect("a key");
        Self { algorithm: Algorithm::ES256, id, key: EncodingKey::from_ec_der(der.as_ref()) }
    }

    pub fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key).expect("a token")
    }

    fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("a public key");
        jwk.common.key_id = Some(self.id.to_owned());
        serde_json::to_value(jwk).expect("JSON")
    }
}

#[derive(Clone, Default)]
struct Published {
    keys: Arc<std::sync::Mutex<Vec<Value>>>,
    asked: Arc<AtomicUsize>,
    away: Arc<AtomicBool>,
}

/// An issuer that publishes its keys.
pub struct Issuer {
    pub url: String,
    published: Published,
    task: JoinHandle<()>,
}

async fn keys(State(published): State<Published>) -> Result<Json<Value>, StatusCode> {
    published.asked.fetch_add(1, Ordering::SeqCst);
    if published.away.load(Ordering::SeqCst) {
        return Err(StatusCode::BAD_GATEWAY);
    }
    let keys = published.keys.lock().expect("not poisoned").clone();
    Ok(Json(json!({ "keys": keys })))
}

impl Issuer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
        let published = Published::default();
        let router = Router::new().route("/keys", get(keys)).with_state(published.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") });
        Self { url, published, task }
    }

    pub fn publish(&self, signers: &[&Signer]) {
        *self.published.keys.lock().expect("not poisoned") = signers.iter().map(|signer| signer.public()).collect();
    }

    pub fn be_away(&self, away: bool) {
        self.published.away.store(away, Ordering::SeqCst);
    }

    /// How often the keys were asked for.
    pub fn asked(&self) -> usize {
        self.published.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
