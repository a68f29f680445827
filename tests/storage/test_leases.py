import os
import signal
import subprocess
import time

from crosswind.storage.leases import STALE_SECONDS, Driver, machine, process_start


def test_a_process_is_known_by_its_number_and_its_start():
    driver = Driver.current()
    assert driver.lives(0.0, 1e9)
    same_driver = Driver(driver.id, driver.host, driver.pid, driver.start)
    driver.end()
    assert not same_driver.lives(0.0, 0.0)


def test_a_number_given_to_another_process_is_not_taken_for_the_driver():
    child = subprocess.Popen(["sleep", "60"])
    try:
        start = process_start(child.pid)
        assert start is not None
        assert Driver("a", machine(), child.pid, start).lives(0.0, 1e9)
        assert not Driver("a", machine(), child.pid, start + "1").lives(0.0, 0.0)
    finally:
        child.kill()
        child.wait()
    assert not Driver("a", machine(), child.pid, start).lives(0.0, 0.0)


def test_a_process_that_nobody_has_waited_for_is_dead():
    child = subprocess.Popen(["sleep", "60"])
    driver = Driver("a", machine(), child.pid, process_start(child.pid) or "")
    os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while driver.lives(0.0, 0.0) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not driver.lives(0.0, 0.0)
    child.wait()


def test_on_another_machine_the_heartbeat_decides():
    driver = Driver("a", "another machine", os.getpid(), "1")
    assert driver.lives(1000.0, 1000.0 + STALE_SECONDS)
    assert not driver.lives(1000.0, 1000.1 + STALE_SECONDS)


def test_two_drivers_of_one_process_differ():
    drivers = [Driver.current() for _ in range(50)]
    assert len({driver.id for driver in drivers}) == 50
    assert all(driver.id.replace("-", "").isalnum() for driver in drivers)
    for driver in drivers:
        driver.end()
