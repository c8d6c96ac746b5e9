//! Reads and lists of all that a space keeps by name: counters, budgets and sequences.

use super::access::Serving;
use super::asking::{Answered, Asking};
use super::problem::{Problem, QueryString, Route};
use axum::Json;
use serde::Deserialize;
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_ground::api::PAGE_MAX;
use tallymesh_node_ground::model::{Query, Refusal, SpaceId};
use tallymesh_node_ground::problems;
use utoipa::IntoParams;

/// Rows of one page, by default.
const PAGE_DEFAULT: usize = 1_000;

/// The answer of a handler.
pub(super) type Answer<T> = Result<Answered<Json<T>>, Problem>;

/// Selects the page of the list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only keys with this prefix.
    #[serde(default)]
    prefix: String,
    /// Only keys after this one, by their bytes: the `next` of the previous page.
    after: Option<String>,
    /// Most counters in the page; 1,000 if it is left out.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<usize>,
}

impl ListQuery {
    fn checked(self) -> Result<Query, Problem> {
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&limit) {
            let detail = format!("limit is {limit} and must be 1 to {PAGE_MAX}");
            return Err(Problem::new(&problems::QUERY, detail));
        }
        Ok(Query {
            prefix: self.prefix,
            after: self.after,
            limit,
        })
    }
}

/// Reads one row, after the waits that the request asks for. Without one, it is the problem of `no`.
pub(super) async fn read<T>(
    app: Serving,
    Route((space, key)): Route<(String, String)>,
    asking: Asking,
    read: impl AsyncFnOnce(&Handle, SpaceId, String) -> Result<Option<T>, Refusal>,
    no: impl FnOnce(&str) -> Problem,
) -> Answer<T> {
    let space = app.handle.space(&space)?;
    let seen = asking.wait(&app, space).await?;
    let row = read(&app.handle, space, key.clone()).await?;
    let row = row.ok_or_else(|| no(&key))?;
    Ok(seen.map(|()| Json(row)))
}

/// Lists rows by name, after the waits that the request asks for.
pub(super) async fn list<T>(
    app: Serving,
    Route(space): Route<String>,
    asking: Asking,
    QueryString(query): QueryString<ListQuery>,
    list: impl AsyncFnOnce(&Handle, SpaceId, Query) -> Result<T, Refusal>,
) -> Answer<T> {
    let space = app.handle.space(&space)?;
    let query = query.checked()?;
    let seen = asking.wait(&app, space).await?;
    let page = list(&app.handle, space, query).await?;
    Ok(seen.map(|()| Json(page)))
}
