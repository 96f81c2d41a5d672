//! Atomics that call a hook after each access: to stop a thread at any step, to count its steps, to delay it.
//!
//! A step is one access to one atomic by one thread, and its label is the line in `raw` that made it.

use std::{cell::RefCell, panic::Location, rc::Rc, sync::atomic as std_atomic};

pub(crate) use std_atomic::Ordering;

type Hook = Rc<dyn Fn(&'static Location<'static>)>;

thread_local! { static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) } }

/// From now on `hook` is called after each step of this thread, with the step's label.
///
/// Threads without a hook yield at every sixteenth step, about.
pub fn after_each(hook: impl Fn(&'static Location<'static>) + 'static) {
    HOOK.set(Some(Rc::new(hook)));
}

/// Undoes [`after_each`].
pub fn forget_hook() {
    HOOK.set(None);
}

#[track_caller]
fn step() {
    let label = Location::caller();
    // Steps of a thread's last destructors go without.
    let hook = HOOK.try_with(|hook| hook.borrow().clone());
    match hook {
        Ok(Some(hook)) => hook(label),
        _ => yield_at_random(),
    }
}

fn yield_at_random() {
    thread_local! { static STATE: std::cell::Cell<u32> = const { std::cell::Cell::new(0x9e37_79b9) } }
    let yields = STATE.try_with(|state| {
        // Xorshift (Marsaglia 2003).
        let mut x = state.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        state.set(x);
        x % 16 == 0
    });
    if yields == Ok(true) {
        std::thread::yield_now();
    }
}

macro_rules! stepped {
    ($name:ident $(<$T:ident>)?, $value:ty, { $($rmw:ident)* }) => {
        #[derive(Debug)]
        #[repr(transparent)]
        pub(crate) struct $name $(<$T>)? (std_atomic::$name $(<$T>)?);

        impl $(<$T>)? $name $(<$T>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(std_atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                let value = self.0.load(order);
                step();
                value
            }

            stepped! { @each $value; store() $($rmw($value))* }

            #[allow(dead_code, reason = "one macro for all types")]
            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let result = self.0.compare_exchange(current, new, success, failure);
                step();
                result
            }
        }
    };
    (@each $value:ty; $($method:ident($($result:ty)?))*) => {
        $(
            #[allow(dead_code, reason = "one macro for all types")]
            #[track_caller]
            pub(crate) fn $method(&self, value: $value, order: Ordering) $(-> $result)? {
                let result = self.0.$method(value, order);
                step();
                result
            }
        )*
    };
}

stepped!(AtomicBool, bool, { swap });
stepped!(AtomicIsize, isize, { swap });
stepped!(AtomicUsize, usize, { swap fetch_add fetch_sub });
stepped!(AtomicU64, u64, { swap fetch_or });
stepped!(AtomicPtr<T>, *mut T, { swap });
