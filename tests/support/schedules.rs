//! How scenarios are run by shuttle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use super::size;

/// Runs `scenario` in so many schedules of each kind, about; says how many there were, and how many steps.
///
/// No thread is ever kept from ending: that would take more steps than a schedule may have.
pub(crate) fn explore(schedules: usize, scenario: fn()) {
    let schedules = size(schedules);
    let steps = Arc::new(AtomicUsize::new(0));
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::default();
        config.stack_size = 1 << 18;
        config.max_steps = MaxSteps::FailAfter(50_000);
        config.silence_warnings = true;
        let steps = Arc::clone(&steps);
        Runner::new(scheduler, config).run(move || {
            scenario();
            steps.fetch_add(shuttle::current::context_switches(), SeqCst);
        })
    };
    let explored = run(Box::new(RandomScheduler::new(schedules)))
        + run(Box::new(PctScheduler::new(3, schedules)));
    let test = std::thread::current();
    let name = test.name().unwrap_or("scenario");
    println!("{name}: {explored} schedules, {} steps", steps.load(SeqCst));
}
