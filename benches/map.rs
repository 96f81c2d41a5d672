//! quince alone: what each kind of operation costs on one thread. `benches/README.md` has the procedure.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quince::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::time::Duration;

/// As cheap as a hash function can be, so that the map's own cost shows.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("all keys are u64")
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Map = HashMap<u64, u64, BuildHasherDefault<Multiply>>;

const SMALL: usize = 1_000;
const MEDIUM: usize = 100_000;
const LARGE: usize = 1_000_000;

/// Distinct keys in no order: the steps of a full-period congruential generator (Knuth's MMIX constants).
fn keys() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |key| {
        Some(
            key.wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407),
        )
    })
}

fn filled(keys: &[u64]) -> Map {
    keys.iter().map(|&key| (key, key)).collect()
}

/// `size` keys to insert, `size` others, and the first ones again in another order.
fn key_sets(size: usize) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let present: Vec<u64> = keys().take(size).collect();
    let absent = keys().skip(size).take(size).collect();
    let mut shuffled = present.clone();
    shuffled.sort_unstable();
    (present, absent, shuffled)
}

fn get(criterion: &mut Criterion) {
    for size in [SMALL, MEDIUM, LARGE] {
        let (present, absent, shuffled) = key_sets(size);
        let map = filled(&present);
        for (outcome, keys) in [("hit", &shuffled), ("miss", &absent)] {
            let mut group = criterion.benchmark_group(format!("get/{outcome}"));
            let mut keys = keys.iter().cycle();
            group.bench_function(BenchmarkId::new("pinned", size), |bencher| {
                let pinned = map.pin();
                bencher.iter(|| pinned.get(keys.next().unwrap()).is_some());
            });
            group.bench_function(BenchmarkId::new("owned", size), |bencher| {
                bencher.iter(|| map.get(keys.next().unwrap()));
            });
        }
    }
}

fn insert_or_get_present(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get_or_insert/present");
    for size in [SMALL, MEDIUM] {
        let (present, _, shuffled) = key_sets(size);
        let map = filled(&present);
        let mut keys = shuffled.iter().cycle();
        group.bench_function(BenchmarkId::new("pinned", size), |bencher| {
            let pinned = map.pin();
            bencher.iter(|| *pinned.get_or_insert(*keys.next().unwrap(), 0));
        });
        group.bench_function(BenchmarkId::new("owned", size), |bencher| {
            bencher.iter(|| map.get_or_insert(*keys.next().unwrap(), 0));
        });
    }
}

/// Absent keys into a map with room for them, so no table grows.
fn insert_or_get_absent(criterion: &mut Criterion) {
    inserts(criterion, "get_or_insert/absent", |size| {
        Map::with_capacity_and_hasher(size, Default::default())
    });
}

/// The same from an empty map, growing on the way.
fn fill(criterion: &mut Criterion) {
    inserts(criterion, "fill", |_| Map::default());
}

fn inserts(criterion: &mut Criterion, name: &str, new_map: impl Fn(usize) -> Map) {
    let mut group = criterion.benchmark_group(name);
    for size in [SMALL, MEDIUM] {
        let (present, ..) = key_sets(size);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("pinned", size), |bencher| {
            let insert_all = |map: Map| {
                let pinned = map.pin();
                for &key in &present {
                    black_box(pinned.get_or_insert(key, key));
                }
                drop(pinned);
                map
            };
            bencher.iter_batched(|| new_map(size), insert_all, BatchSize::LargeInput);
        });
        group.bench_function(BenchmarkId::new("owned", size), |bencher| {
            let insert_all = |map: Map| {
                for &key in &present {
                    black_box(map.get_or_insert(key, key));
                }
                map
            };
            bencher.iter_batched(|| new_map(size), insert_all, BatchSize::LargeInput);
        });
    }
}

/// One entry leaves and another one comes: a window of `size` slides over twice as many keys.
fn remove_insert(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("remove_insert");
    for size in [SMALL, MEDIUM] {
        let (present, absent, _) = key_sets(size);
        let ring = [present, absent].concat();
        let map = filled(&ring[..size]);
        let mut steps = ring.iter().zip(ring[size..].iter().chain(&ring)).cycle();
        group.bench_function(BenchmarkId::new("pinned", size), |bencher| {
            bencher.iter(|| {
                let (oldest, newest) = steps.next().unwrap();
                let pinned = map.pin();
                (
                    pinned.remove(oldest).copied(),
                    pinned.insert(*newest, 0).copied(),
                )
            });
        });
        group.bench_function(BenchmarkId::new("owned", size), |bencher| {
            bencher.iter(|| {
                let (oldest, newest) = steps.next().unwrap();
                (map.remove(oldest), map.insert(*newest, 0))
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2))
        .sample_size(30);
    targets = get, insert_or_get_present, insert_or_get_absent, fill, remove_insert
}
criterion_main!(benches);
