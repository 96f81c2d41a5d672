//! The engine: a lock-free open-addressed table whose memory is timed by epochs.
//!
//! # Purpose
//!
//! Insert-or-get must be one step: of all threads that insert an absent key one wins, and every thread gets the winner's
//! value. Nothing is held while user code runs, and a thread that stops, at whatever instruction, stops nobody else.
//!
//! # Layout
//!
//! ```text
//!  RawMap            Table                 buckets (64 bytes each)
//! +--------+        +----------+          +------+--------+--------+-- --+--------+
//! | root  -+------->| buckets -+--------->| ctrl | slot 1 | slot 2 | ... | slot 7 |
//! | store -+--+     | shift    |          +------+--------+--------+-- --+--------+
//! | stripes|  |     | next ----+--> Table | ...
//! | seed   |  |     | progress |          +------
//! +--------+  |     +----------+
//!             |      directory      chunk (nodes never move)
//!             +---->[ 1 | 2 | . ]-->[ key value | key value | ... ]  + bitmap of free nodes
//!
//!  ctrl   bit 0: MOVED; byte i: tag of slot i, 0 = not announced
//!  slot   hash (29 bits) | PASSED (1) | FROZEN (1) | location (33): vacant, tombstone, or chunk and offset of a node
//! ```
//!
//! The user's hash is mixed, and its top 29 bits are kept. Their top bits name the *home* bucket, the low seven make the
//! *tag*. The *path* of a hash is its home bucket and the buckets after it, as far as all before are full. A hit reads two
//! cache lines, bucket and node; a miss reads one. All seven tags are compared at once inside one 64-bit word.
//!
//! # States
//!
//! ```text
//!  slot    vacant --S1 publish--> live <--S2 replace--> live' --S3 bury--> tombstone --S5 revive--> live, same hash
//!                                  live --S6 pass--> PASSED  --S3 bury--> spent tombstone, for ever
//!          each of them --S4 freeze--> the same, for ever
//!  tag     0 --C1 announce--> tag                  bucket  open --C2 close--> MOVED
//!  table   no root --M0--> root --M1 install--> has a next --M2 frontier at the end--> M3 root := next, retired
//!
//!  node    free --allocate--> private --S1, S2--> in the table --S2, S3--> retired --grace period--> free
//!          free: bitmap or a stripe's list    private: one writer    in the table, retired: read by all, nobody writes
//! ```
//!
//! Files: [`tag`] and [`bucket`] are the words (all S and C edges are methods of `Bucket`), [`table`] the path and the
//! writer's walk (M1, M2), [`root`] the map and the session (M0, M3, node ownership), [`read`] and [`write`] the operations,
//! [`migrate`] the way to the next table, [`iter`] and [`teardown`] what goes over everything, [`store`] the nodes, [`stripe`]
//! what writers keep to themselves, [`reclaim`] the bags, [`snapshot`] and [`array`] two building blocks. Read them in the
//! order tag, bucket, table, read, write, migrate; the rest as needed.
//!
//! # Invariants
//!
//! * **I1** A slot is vacant once, and belongs to one hash from then on; it belongs to one key until it is buried. A frozen
//!   slot and a spent one do not change any more.
//! * **I2** An entry is put into the first slot of its path that is vacant or a tombstone of its hash which may be revived. So
//!   of the slots before a slot in use none is vacant.
//! * **I3** A bucket's slots are announced before anybody passes the bucket on a walk that places something, and a slot
//!   before anybody returns because of what is in it. So a reader may stop at the first bucket with an unannounced slot.
//! * **I4** A key is inserted, replaced or removed in a table only after every bucket of its path in every older table is
//!   MOVED. Copying is not changing.
//! * **I5** Slots of a MOVED bucket are not dereferenced.
//! * **I6** A node is initialised exactly if it is not free; user code never runs between allocation and initialisation, nor
//!   between the end of a pair and the release of its node.
//! * **I7** A node is retired once, by whoever unlinked it (S2, S3), and freed once, when every guard of then is gone.
//! * **I8** What is found under a guard stays until the guard ends: tables, versions of a [`snapshot`], and the node of a live
//!   word that was loaded after its bucket's control word showed no MOVED.
//! * **I9** What belongs to a stripe is touched by its leaseholder only, and no user code runs meanwhile.
//! * **I10** A copier takes a vacant slot for `k` only if the bucket it copies from was not MOVED after it saw every slot of
//!   the path before.
//! * **I11** As long as a slot is a tombstone that may be revived, or live and neither PASSED nor frozen, no later slot of its
//!   path was taken for its hash: who goes past it for this hash, to insert or to copy, marks it first, and
//!   who buries it then leaves it spent.
//!
//! Why I8 holds for nodes: a node leaves the newest table it is in before it is retired, and by I4 all older buckets with
//! that word are MOVED by then. Who pins after the retirement's grace period sees those marks, and by I5 does not follow
//! the word; who pinned earlier keeps the grace period open.
//!
//! Why a late copier resurrects nothing (I10): let the copier of `k` from bucket A come to a vacant slot. If `k` had been
//! placed before, then by I2 in a slot that the copier passed. Its word there was another one, or the copier would have
//! stopped: `k` was replaced or removed after it was copied, and the slot perhaps revived. By I4 A was MOVED before that, and
//! the copier, having read the later word (E6), sees MOVED when it looks again. The same holds if it comes to a tombstone of
//! its hash: whoever buried that had seen the path of this hash MOVED, and A is in it; so copiers revive nothing. If `k` was
//! not placed before, the first vacant slot of the path is where every copier must put it, and the compare-and-swap decides
//! between them. Where the slots that would tell were left behind
//! in a table that was moved on itself, their bucket's MOVED mark tells (E3): whoever set it had read them.
//!
//! Why no key is doubled: of two inserters of `k` in one table, both examine the slots of the path in their order. None passes
//! a vacant one, nor one of their hash that may be revived, now or after its key is removed: they mark that first (S6, I11). So
//! what one of them passes the other one passes, or finds `k` in it; both want the same slot, and one of them meets the
//! other's word. That a tombstone which they saw was revived and buried again meanwhile does no harm: it still is the first
//! that may take `k`. An inserter in the older table cannot come late: all inserters in
//! the younger one have seen the whole path MOVED, its first vacant slot frozen, and every tombstone that could be revived.
//!
//! # Ordering edges
//!
//! | edge | publisher | observer | what becomes visible |
//! |---|---|---|---|
//! | E1 | `Bucket::publish`, `replace`, `revive` (release) | `Bucket::load` (acquire) | the node, and the chunk it is in |
//! | E2 | `Bucket::announce` (release) | `Bucket::ctrl` (acquire) | that the slot is not vacant |
//! | E3 | `Bucket::close`, `Table::advance_frontier` (release) | `Bucket::ctrl`, `Table::is_moved` (acquire) | the copies, and what the copier saw |
//! | E4 | `Table::install` (release) | `Table::next` (acquire) | vacant buckets |
//! | E5 | `RawMap::install_root`, `advance_root` (release) | `RawMap::root` (acquire) | the table, and the copies in it |
//! | E6 | `Bucket::replace`, `bury`, `revive` (release) | `Bucket::load`, `freeze` (acquire) | that older buckets are MOVED |
//! | E7 | `Snapshot::try_replace` (release) | `Snapshot::load` (acquire) | the items and what they point at |
//! | E8 | `FreeMap::give` (release) | `FreeMap::take` (acquire) | that the last user of the node is done |
//! | E9 | the closure in `Garbage::seal` (release) | `Garbage::pop_ripe` (acquire) | that every reader is done |
//! | E10 | end of a `Lease` (release) | `Stripe::try_lease` (acquire) | what the stripe holds |
//!
//! All changes of ctrl and slots are read-modify-writes, so a later value of a word still synchronises with every earlier
//! release.
//!
//! **E0** For one key the edges above suffice. Between keys they do not: of two threads that each insert a key and then look
//! for the other's, both could miss (a store is passed by a later load). Insert, then look at something else, is how waiters
//! register; so every access to ctrl, slots and a null root that can be the instant of an operation is sequentially consistent, and
//! operations on different keys, and the caller's own sequentially consistent accesses, fall into one order. On x86-64 this
//! changes no instruction. The models use acquire and release there, so that they test the edges.
//!
//! `repin` is followed by a fence: I8 needs what a fresh pin has, and `crossbeam_epoch::Guard::repin` has none.
//!
//! # Linearization
//!
//! | operation | instant |
//! |---|---|
//! | insertion of an absent key | C1 of its slot; S5, for its slot was announced before it was buried; or, if it is copied before C1, the C1 or C2 which first lets a reader find the copy |
//! | hit | load of the slot; if the bucket was closed since its control word was loaded, just before the close |
//! | miss | in the first table at the end of whose path the key is absent: load of the control word that ended the path; if the key is present at that load, it was inserted where the look-up had been already: just before that S5 or C1, or just after the S3 that came between; if a bucket of the path was closed meanwhile, before the close; load of a null root |
//! | replacement, removal | success of S2, S3 |
//! | insert-or-get, present | as a hit |
//!
//! # Transient states that are allowed
//!
//! * A slot is in use and not announced: its inserter or copier has not returned. Readers do not see it; a writer that meets it
//!   announces it.
//! * A word is in two tables: as long as the old bucket is not MOVED the old one counts, and it is frozen.
//! * The slots in use are estimated from counts that no instant has in common: a table may be purged early, or fill up further
//!   than it should. A full one is replaced whatever the counts say.
//! * The root is completely MOVED: look-ups go one table further until some writer promotes the next one.
//! * A table is younger than the next one of the root: the chain grows when a table is full before the older migration is
//!   done (all but a few writers stopped in it, say; to keep this rare a table shrinks by three doublings at most). Whoever wants to migrate out of a table finishes the older migrations first, so this takes writers that were
//!   overtaken in between.
//!
//! # Progress
//!
//! A look-up makes one pass over one path per table and repeats nothing. Every loop of a writer goes
//! round again only because another thread's compare-and-swap on the same hash succeeded (S6 once for each time that a slot
//! is used), or because a bucket of its path was moved, which happens once per table. A helper who stops holds no bucket: when every chunk is claimed, the others move again what is
//! behind the frontier, with the same result. The flag on allocating the next table is a hint: when a table is nearly full
//! everybody allocates, and the losers free. A full table counts its own live words to size the next one: inserters that
//! stopped before they counted their entries may be many.
//!
//! # Alternatives that were tried or weighed
//!
//! * A FROZEN mark in the control word, which readers and writers would heed: not needed. Until a bucket is MOVED nothing
//!   about its keys is different anywhere else (I4), so a reader that sees no MOVED may answer from this table, and frozen
//!   slots turn writers away by themselves. It would cost one locked instruction a bucket.
//! * A copier that compares keys: not needed either. Before the bucket is MOVED the next table can only hold the same node,
//!   and after that I10 stops the copier. So migration never runs user code.
//! * Estimating the used slots by sampling control words: the sums of the stripes are exact when nobody writes, cost a few
//!   loads, and are not fooled by bad hashes.
//! * Finishing the older migration before anybody may insert into the next table: bounds the chain, but makes inserts wait
//!   for a whole migration. Following the chain needs no wait, only [`migrate`]'s loop.
//! * Slots that are used once and never again: a key that comes and goes, or many keys that come back, fill the table with
//!   tombstones, and one hot key's tombstones are a path that all its users walk. Measured with skewed keys: more than 20 times
//!   slower than with S5. (Two hot keys with the same 29 bits still leave tombstones behind: they pass each other.) Reviving for another hash would need the tag to change, and readers to check again what they passed.
//! * A separate array of tags: one cache line more on a hit. Tagged pointers in the slots: no room for 29 bits of hash, and
//!   migration would read keys.
//! * A static empty bucket instead of a null root: saves a predictable branch, and costs statics which a model checker
//!   cannot make.
//!
//! Sources: the one-way slots and cooperative migration go back to C. Click's lock-free hash table (2007) and to Maier,
//! Sanders and Dementiev, "Concurrent Hash Tables: Fast and General(?)!" (2016); the tags to Swiss tables (2017); the
//! epochs to K. Fraser, "Practical lock-freedom" (2004).

mod array;
mod bucket;
mod iter;
mod migrate;
#[cfg(all(test, loom))]
mod models;
mod read;
mod reclaim;
mod root;
mod snapshot;
mod store;
mod stripe;
mod table;
mod tag;
mod teardown;
mod write;

#[cfg(feature = "rayon")]
pub(crate) use iter::Part;
pub(crate) use iter::{Iter, OwnedIter};
pub(crate) use root::{RawMap, Session};
pub(crate) use tag::Hash;
pub(crate) use teardown::{Drain, IntoIter, IterMut};
pub(crate) use write::Inserted;
