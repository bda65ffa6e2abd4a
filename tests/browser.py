"""A real headless Chromium, with nothing downloaded and nothing kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

from tests import services

SCREENSHOTS = Path(__file__).parent / "screenshots"
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # it refuses its sandbox to root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@contextmanager
def chromium(profile: Path) -> Iterator[WebDriver]:
    """Start a browser with an empty profile; skip by name, or fail in CI, where there is none."""
    options = Options()
    options.binary_location = services.need("chromium", "chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver_path = services.need("chromedriver", "chromium-driver")  # named, so that Selenium looks for no other
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        yield driver
    finally:
        driver.quit()


def keep_screenshot(driver: WebDriver, name: str) -> None:
    """Keep what the page looks like, for people."""
    SCREENSHOTS.mkdir(exist_ok=True)
    driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
