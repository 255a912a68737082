//! The client of the README.
//! The block is what follows this header.

use idem_client::{Builder, Key, reqwest, reqwest_middleware};

async fn charge(order: u64, body: String) -> Result<String, reqwest_middleware::Error> {
    let client = Builder::new().build(reqwest::Client::builder())?; // once a process
    let payment = client.post("https://bank.example/payments").header("content-type", "application/json");
    let key = Key::new(format!("order-{order}"))?; // or none: each call gets a random UUID
    Ok(payment.with_extension(key).body(body).send().await?.text().await?)
}
