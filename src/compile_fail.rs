//! What must not compile, each with a twin that differs in the decisive point only and does compile: so a program is
//! rejected for the reason it is here for. Compiled by `cargo test --doc` alone.
//!
//! The error codes are checked by nightly compilers. Errors about lifetimes in signatures have none.

/// `Send` takes keys and values that are `Send`.
///
/// ```
/// fn send<T: Send>() {}
/// send::<quince::HashMap<u8, std::sync::Arc<u8>>>();
/// send::<quince::HashMap<std::sync::Arc<u8>, u8>>();
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<quince::HashMap<u8, std::rc::Rc<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<quince::HashMap<std::rc::Rc<u8>, u8>>();
/// ```
mod send_needs_send {}

/// `Sync` takes keys and values that are `Sync`: threads share them.
///
/// ```
/// fn sync<T: Sync>() {}
/// sync::<quince::HashMap<u8, std::sync::atomic::AtomicU8>>();
/// sync::<quince::HashMap<std::sync::atomic::AtomicU8, u8>>();
/// ```
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<quince::HashMap<u8, std::cell::Cell<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<quince::HashMap<std::cell::Cell<u8>, u8>>();
/// ```
mod sync_needs_sync {}

/// `Sync` takes keys and values that are also `Send`: one thread may drop what another inserted.
///
/// ```
/// fn sync<T: Sync>() {}
/// sync::<quince::HashMap<u8, &std::sync::MutexGuard<'static, u8>>>();
/// sync::<quince::HashMap<&std::sync::MutexGuard<'static, u8>, u8>>();
/// ```
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<quince::HashMap<u8, std::sync::MutexGuard<'static, u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<quince::HashMap<std::sync::MutexGuard<'static, u8>, u8>>();
/// ```
mod sync_needs_send {}

/// The hasher counts, too.
///
/// ```
/// use std::hash::RandomState;
/// fn send_and_sync<T: Send + Sync>() {}
/// send_and_sync::<quince::HashMap<u8, u8, RandomState>>();
/// ```
/// ```compile_fail,E0277
/// use std::{hash::RandomState, rc::Rc};
/// fn send<T: Send>() {}
/// send::<quince::HashMap<u8, u8, Rc<RandomState>>>();
/// ```
/// ```compile_fail,E0277
/// use std::{cell::Cell, hash::RandomState};
/// fn sync<T: Sync>() {}
/// sync::<quince::HashMap<u8, u8, Cell<RandomState>>>();
/// ```
mod the_hasher_is_a_part_of_the_map {}

/// A view holds its thread's pin.
///
/// ```
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(&map);
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(map.pin());
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(&map.pin());
/// ```
mod a_view_stays_on_its_thread {}

/// So does an iterator that looks at a shared map, on both faces.
///
/// ```
/// fn send<T: Send>(_: T) {}
/// let mut map = quince::HashMap::from([(1, 2)]);
/// send(map.iter_mut());
/// send(map.into_iter());
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(map.pin().iter());
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(map.pin().keys());
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(map.pin().values());
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(map.iter());
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(map.keys());
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// let map = quince::HashMap::from([(1, 2)]);
/// send(map.values());
/// ```
mod a_shared_iterator_stays_on_its_thread {}

/// An iterator that owns its entries moves to another thread if they do.
///
/// ```
/// use quince::iter::{Drain, IntoIter, IterMut};
/// fn send<T: Send>() {}
/// send::<IntoIter<u8, String>>();
/// send::<Drain<'_, u8, String>>();
/// send::<IterMut<'_, u8, String>>();
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<quince::iter::IntoIter<u8, std::rc::Rc<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<quince::iter::Drain<'_, u8, std::rc::Rc<u8>>>();
/// ```
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<quince::iter::IterMut<'_, u8, std::rc::Rc<u8>>>();
/// ```
/// `iter_mut` lends the keys, which stay behind:
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<quince::iter::IterMut<'_, std::cell::Cell<u8>, u8>>();
/// ```
mod an_owning_iterator_sends_its_entries {}

/// A view is made by `pin` alone: there is no way to bring a guard of another collector, or none at all.
///
/// ```
/// let map = quince::HashMap::from([(1, 2)]);
/// let pinned: quince::Pinned<'_, _, _, _> = map.pin();
/// ```
/// ```compile_fail,E0624
/// let map = quince::HashMap::from([(1, 2)]);
/// let pinned: quince::Pinned<'_, _, _, _> = quince::Pinned::new(&map);
/// ```
/// ```compile_fail
/// let map = quince::HashMap::from([(1, 2)]);
/// let pinned: quince::Pinned<'_, _, _, _> = quince::Pinned { map: &map };
/// ```
mod a_view_is_made_by_pin {}

/// The guard inside of a view is out of reach: swapped for a foreign one, it would protect nothing.
///
/// ```
/// let map = quince::HashMap::from([(1, 2)]);
/// let mut pinned = map.pin();
/// pinned.repin();
/// ```
/// ```compile_fail,E0616
/// let map = quince::HashMap::from([(1, 2)]);
/// let mut pinned = map.pin();
/// pinned.session.repin();
/// ```
/// ```compile_fail,E0277
/// let map = quince::HashMap::from([(1, 2)]);
/// let mut pinned = map.pin();
/// let guard: &mut crossbeam_epoch::Guard = (&mut pinned).into();
/// ```
/// Whole views can be swapped, but not while they lend something:
/// ```
/// let (map, other) = (quince::HashMap::from([(1, 2)]), quince::HashMap::from([(1, 3)]));
/// let (mut pinned, mut swapped) = (map.pin(), other.pin());
/// std::mem::swap(&mut pinned, &mut swapped);
/// assert_eq!(pinned.get(&1), Some(&3));
/// ```
/// ```compile_fail,E0502
/// let (map, other) = (quince::HashMap::from([(1, 2)]), quince::HashMap::from([(1, 3)]));
/// let (mut pinned, mut swapped) = (map.pin(), other.pin());
/// let value = pinned.get(&1);
/// std::mem::swap(&mut pinned, &mut swapped);
/// assert_eq!(value, Some(&2));
/// ```
mod the_guard_of_a_view_is_its_own {}

/// A lent value ends with its view.
///
/// ```
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let value = pinned.get(&1);
/// println!("{value:?}");
/// drop(pinned);
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let value = pinned.get(&1);
/// drop(pinned);
/// println!("{value:?}");
/// ```
/// ```compile_fail,E0716
/// let map = quince::HashMap::from([(1, String::new())]);
/// let value = map.pin().get(&1);
/// println!("{value:?}");
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let value = pinned.remove(&1);
/// drop(pinned);
/// println!("{value:?}");
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let replaced = pinned.insert(1, String::new());
/// drop(pinned);
/// println!("{replaced:?}");
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let entry = pinned.iter().next();
/// drop(pinned);
/// println!("{entry:?}");
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let entry = pinned.get_key_value(&1);
/// drop(pinned);
/// println!("{entry:?}");
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let removed = pinned.remove_entry(&1);
/// drop(pinned);
/// println!("{removed:?}");
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let occupied = pinned.try_insert(1, String::new());
/// drop(pinned);
/// println!("{occupied:?}");
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// let computed = pinned.compute::<()>(1, |_| quince::Operation::Remove);
/// drop(pinned);
/// println!("{computed:?}");
/// ```
mod what_is_lent_ends_with_the_view {}

/// A view, and what it lent, end before the map.
///
/// ```
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// println!("{:?}", pinned.get(&1));
/// drop(pinned);
/// drop(map);
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// drop(map);
/// println!("{:?}", pinned.get(&1));
/// ```
/// ```compile_fail,E0505
/// let map = quince::HashMap::from([(1, String::new())]);
/// let mut entries = map.iter();
/// drop(map);
/// println!("{:?}", entries.next());
/// ```
/// ```compile_fail,E0502
/// let mut map = quince::HashMap::from([(1, String::new())]);
/// let pinned = map.pin();
/// map.clear_mut();
/// println!("{:?}", pinned.get(&1));
/// ```
mod a_view_ends_before_the_map {}

/// A view is dropped before its map, also when both end with their scope.
///
/// ```
/// let map = quince::HashMap::new();
/// let pinned;
/// pinned = map.pin();
/// pinned.insert(1, 1);
/// ```
/// ```compile_fail,E0597
/// let pinned;
/// let map = quince::HashMap::new();
/// pinned = map.pin();
/// pinned.insert(1, 1);
/// ```
/// ```compile_fail,E0597
/// let entries;
/// let map = quince::HashMap::from([(1, 1)]);
/// entries = map.iter();
/// ```
mod a_view_is_dropped_before_the_map {}

/// A lent value ends where its view repins or frees what was removed.
///
/// ```
/// let map = quince::HashMap::from([(1, String::new())]);
/// let mut pinned = map.pin();
/// let value = pinned.get(&1);
/// println!("{value:?}");
/// pinned.repin();
/// pinned.flush();
/// ```
/// ```compile_fail,E0502
/// let map = quince::HashMap::from([(1, String::new())]);
/// let mut pinned = map.pin();
/// let value = pinned.get(&1);
/// pinned.repin();
/// println!("{value:?}");
/// ```
/// ```compile_fail,E0502
/// let map = quince::HashMap::from([(1, String::new())]);
/// let mut pinned = map.pin();
/// let value = pinned.remove(&1);
/// pinned.flush();
/// println!("{value:?}");
/// ```
/// ```compile_fail,E0502
/// let map = quince::HashMap::from([(1, String::new())]);
/// let mut pinned = map.pin();
/// let mut keys = pinned.keys();
/// pinned.repin();
/// println!("{:?}", keys.next());
/// ```
mod what_is_lent_ends_with_the_pin {}

/// An iterator with exclusive access keeps everybody else out.
///
/// ```
/// let mut map = quince::HashMap::from([(1, 2)]);
/// let values: Vec<_> = map.values_mut().collect();
/// println!("{values:?}");
/// println!("{:?}", map.get(&1));
/// ```
/// ```compile_fail,E0502
/// let mut map = quince::HashMap::from([(1, 2)]);
/// let values: Vec<_> = map.values_mut().collect();
/// println!("{:?}", map.get(&1));
/// println!("{values:?}");
/// ```
/// ```compile_fail,E0502
/// let mut map = quince::HashMap::from([(1, 2)]);
/// let drain = map.drain();
/// println!("{:?}", map.get(&1));
/// drop(drain);
/// ```
mod exclusive_access_is_exclusive {}

/// A map of long lifetimes is not one of short ones, neither by value nor behind a reference: something short-lived
/// could be put in that is later read as long-lived.
///
/// ```
/// use quince::HashMap;
/// fn same<'m, 'a>(map: &'m HashMap<u8, &'a str>) -> &'m HashMap<u8, &'a str> { map }
/// ```
/// ```compile_fail
/// use quince::HashMap;
/// fn shorten<'m, 'a>(map: &'m HashMap<u8, &'static str>) -> &'m HashMap<u8, &'a str> { map }
/// ```
/// ```compile_fail
/// use quince::HashMap;
/// fn shorten<'m, 'a>(map: &'m HashMap<&'static str, u8>) -> &'m HashMap<&'a str, u8> { map }
/// ```
/// ```compile_fail
/// use quince::HashMap;
/// fn shorten<'a>(map: HashMap<u8, &'static str>) -> HashMap<u8, &'a str> { map }
/// ```
/// ```compile_fail
/// use quince::HashMap;
/// fn shorten<'a>(map: HashMap<&'static str, u8>) -> HashMap<&'a str, u8> { map }
/// ```
/// ```compile_fail
/// use quince::Pinned;
/// use std::hash::RandomState;
/// fn shorten<'m, 'a>(
///     pinned: Pinned<'m, u8, &'static str, RandomState>,
/// ) -> Pinned<'m, u8, &'a str, RandomState> {
///     pinned
/// }
/// ```
/// ```compile_fail
/// use quince::Pinned;
/// use std::hash::RandomState;
/// fn shorten<'m, 'a>(
///     pinned: Pinned<'m, &'static str, u8, RandomState>,
/// ) -> Pinned<'m, &'a str, u8, RandomState> {
///     pinned
/// }
/// ```
mod lifetimes_in_a_map_are_not_shortened {}

/// The program that reads freed memory where that is allowed.
///
/// ```
/// let long = String::from("long");
/// let map: quince::HashMap<u8, &str> = quince::HashMap::new();
/// {
///     map.insert(1, &long);
/// }
/// println!("{:?}", map.get(&1));
/// ```
/// ```compile_fail,E0597
/// let map: quince::HashMap<u8, &str> = quince::HashMap::new();
/// {
///     let short = String::from("short");
///     map.insert(1, &short);
/// }
/// println!("{:?}", map.get(&1));
/// ```
mod what_is_inserted_outlives_the_map {}

/// Nor are lifetimes in function pointers widened.
///
/// ```
/// use quince::HashMap;
/// type Any = for<'a> fn(&'a str);
/// fn same(map: &HashMap<u8, Any>) -> &HashMap<u8, Any> { map }
/// ```
/// ```compile_fail,E0308
/// use quince::HashMap;
/// type Any = for<'a> fn(&'a str);
/// fn widen(map: &HashMap<u8, Any>) -> &HashMap<u8, fn(&'static str)> { map }
/// ```
mod lifetimes_in_function_pointers_are_not_widened {}

/// A map drops its keys and values, so what they borrow is declared before it.
///
/// ```
/// struct Reads<'a>(&'a String);
/// impl Drop for Reads<'_> {
///     fn drop(&mut self) { println!("{}", self.0); }
/// }
/// let string = String::new();
/// let map = quince::HashMap::new();
/// map.pin().get_or_insert(1, Reads(&string));
/// ```
/// ```compile_fail,E0597
/// struct Reads<'a>(&'a String);
/// impl Drop for Reads<'_> {
///     fn drop(&mut self) { println!("{}", self.0); }
/// }
/// let map = quince::HashMap::new();
/// let string = String::new();
/// map.pin().get_or_insert(1, Reads(&string));
/// ```
mod what_destructors_read_outlives_the_map {}

/// A view is not held across an `.await` in a task that moves between threads.
///
/// ```
/// fn spawn(_: impl Future<Output = ()> + Send) {}
/// let map: &_ = Box::leak(Box::new(quince::HashMap::from([(1, 2)])));
/// spawn(async {
///     println!("{:?}", map.pin().get(&1));
///     std::future::ready(()).await;
///     println!("{:?}", map.get(&1));
/// });
/// ```
/// ```compile_fail
/// fn spawn(_: impl Future<Output = ()> + Send) {}
/// let map: &_ = Box::leak(Box::new(quince::HashMap::from([(1, 2)])));
/// spawn(async {
///     let pinned = map.pin();
///     std::future::ready(()).await;
///     println!("{:?}", pinned.get(&1));
/// });
/// ```
mod a_view_is_not_held_across_an_await {}
