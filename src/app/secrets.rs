//! The report of a start about the secrets in the store.

use threadline_store::{SecretForm, SecretStore};

/// Logs secrets that are in clear text or sealed with another key than new ones, and those that cannot be opened.
pub(super) async fn report(store: &(impl SecretStore + ?Sized)) {
    let forms = match store.secret_forms().await {
        Ok(forms) => forms,
        Err(error) => return tracing::warn!(%error, "cannot tell how the secrets in the store are kept"),
    };
    let count = |wanted: SecretForm| forms.iter().filter(|(_, form)| *form == wanted).count();
    let (unsealed, other_key, unopened) =
        (count(SecretForm::Unsealed), count(SecretForm::OtherKey), count(SecretForm::Unopened));
    if unopened > 0 {
        let advice = "their projects reject tokens, and their agents do not exist: name the right key file, or, if its key is lost, run threadline secrets renew";
        tracing::error!(unopened, "secrets in the store are sealed with a key that this node does not have: {advice}");
    }
    match store.sealing_key() {
        Some(key) if unsealed + other_key > 0 => {
            let advice = "run threadline secrets reseal once every node has the key file";
            tracing::warn!(
                unsealed,
                other_key,
                key,
                "secrets in the store are not sealed with the first key: {advice}"
            );
        }
        Some(_) => {}
        None => tracing::warn!("the secrets in the store are unsealed: set --secret-key-file to seal them"),
    }
}
