//! Orders as people name them: by id, by a name that only one order has, or by the beginning of an id.

use crate::{
    client::Client,
    exit::CliError,
    show::{list, text},
};
use rhumb_model::{OrderId, OrderName};
use serde_json::Value;

/// Shortest beginning of an id that stands for it.
const LEAST_PREFIX: usize = 8;
/// Pages of 200 orders that are looked through for a beginning.
const MOST_PAGES: usize = 50;

/// The id that `given` stands for.
pub async fn order(client: &Client, given: &str) -> Result<String, CliError> {
    if let Ok(id) = given.parse::<OrderId>() {
        return Ok(id.to_string());
    }
    if given.parse::<OrderName>().is_ok() {
        let query = vec![("name", given.to_owned()), ("limit", "200".to_owned())];
        let page = client.get(&["v1", "orders"], query).await?;
        let named: Vec<String> =
            list(&page, "/items").iter().filter(|o| text(o, "/name") == given).map(|o| text(o, "/id")).collect();
        if let Some(id) = only(given, "name", named)? {
            return Ok(id);
        }
    }
    if is_prefix(given) {
        let found = by_prefix(client, &given.to_ascii_lowercase()).await?;
        if let Some(id) = only(given, "beginning", found)? {
            return Ok(id);
        }
    }
    let shown: String = given.chars().take(64).flat_map(char::escape_default).collect();
    Err(CliError::Failed(format!("order {shown} does not exist: see `rhumb order list`")))
}

fn is_prefix(given: &str) -> bool {
    given.len() >= LEAST_PREFIX && given.len() < 36 && given.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

async fn by_prefix(client: &Client, prefix: &str) -> Result<Vec<String>, CliError> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let mut query = vec![("limit", "200".to_owned())];
        query.extend(cursor.take().map(|c| ("cursor", c)));
        let page = client.get(&["v1", "orders"], query).await?;
        let ids = list(&page, "/items").iter().map(|o| text(o, "/id"));
        found.extend(ids.filter(|id| id.starts_with(prefix)));
        match page.pointer("/next").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    Ok(found)
}

/// The only one there is; an error where there are several.
fn only(given: &str, what: &str, mut found: Vec<String>) -> Result<Option<String>, CliError> {
    if found.len() > 1 {
        let some = found.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let count = found.len();
        return Err(CliError::Failed(format!(
            "{count} orders have the {what} {given}: give the id of one, such as {some}"
        )));
    }
    Ok(found.pop())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    const ONE: &str = "01930000-1111-7000-8000-000000000001";
    const TWO: &str = "01930000-2222-7000-8000-000000000002";
    const THREE: &str = "01930000-2222-7000-8000-000000000003";

    /// A server of three orders in two pages, by the same query that the interface takes.
    async fn server() -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = vec![0; 4_096];
                let length = stream.read(&mut buffer).await.unwrap();
                let head = String::from_utf8_lossy(&buffer[..length]).into_owned();
                let line = head.lines().next().unwrap_or_default();
                let order = |id: &str, name: &str| json!({"id": id, "name": name});
                let body = if line.contains("name=twice") {
                    json!({"items": [order(TWO, "twice"), order(THREE, "twice")], "next": null})
                } else if line.contains("name=once") {
                    json!({"items": [order(ONE, "once")], "next": null})
                } else if line.contains("name=") {
                    json!({"items": [], "next": null})
                } else if line.contains("cursor=") {
                    json!({"items": [order(ONE, "once")], "next": null})
                } else {
                    json!({"items": [order(THREE, "twice"), order(TWO, "twice")], "next": TWO})
                };
                let body = body.to_string();
                let answer =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Client::new(Context { url, token: None, token_file: None }).unwrap()
    }

    #[tokio::test]
    async fn an_order_is_found_by_id_by_its_only_name_and_by_its_beginning() {
        let client = server().await;
        assert_eq!(order(&client, ONE).await.unwrap(), ONE);
        assert_eq!(order(&client, "once").await.unwrap(), ONE);
        assert_eq!(order(&client, "01930000-1111").await.unwrap(), ONE, "on the second page");
    }

    #[tokio::test]
    async fn what_several_orders_share_names_none_of_them() {
        let client = server().await;
        for shared in ["twice", "01930000-2222"] {
            let error = order(&client, shared).await.unwrap_err().to_string();
            assert!(error.contains("2 orders") && error.contains(TWO), "{error}");
        }
    }

    #[tokio::test]
    async fn what_is_not_there_is_said_to_be_missing() {
        let client = server().await;
        for missing in ["nobody", "0193000", "ffffffff", "a\0b"] {
            let error = order(&client, missing).await.unwrap_err();
            assert!(matches!(&error, CliError::Failed(m) if m.contains("does not exist")), "{missing}: {error}");
        }
    }
}
