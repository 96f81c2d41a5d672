#![doc = include_str!("guide/index.md")]
#![forbid(unsafe_code)]

#[doc = include_str!("guide/first_steps.md")]
pub mod first_steps {}

#[doc = include_str!("guide/owned_or_pinned.md")]
pub mod owned_or_pinned {}

#[doc = include_str!("guide/insert_or_get.md")]
pub mod insert_or_get {}

#[doc = include_str!("guide/removal.md")]
pub mod removal {}

#[doc = include_str!("guide/memory.md")]
pub mod memory {}

#[doc = include_str!("guide/tasks.md")]
pub mod tasks {}

#[doc = include_str!("guide/hashers.md")]
pub mod hashers {}

#[doc = include_str!("guide/costs.md")]
pub mod costs {}

#[doc = include_str!("guide/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("guide/how_it_works.md")]
pub mod how_it_works {}

#[doc = include_str!("guide/comparison.md")]
pub mod comparison {}

#[doc = include_str!("guide/from_dashmap.md")]
pub mod from_dashmap {}

#[doc = include_str!("guide/from_papaya.md")]
pub mod from_papaya {}
