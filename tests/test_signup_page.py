"""What stands on a welcome page: the name, right in the font's scripts; in others the address, never boxes."""

import io
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pypdf import PdfReader

from project.signup import welcome
from tests.welcome import text_of

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
RIGHT = ["Ann O'Brien-Łuczak", "Анна Каренина", "Ἀριστοτέλης Ωνάσης", "Արամ Խաչատրյան", "ნინო", "Đặng Thị Huyền"]
OTHER_SCRIPTS = ["مریم میرزاخانی", "שרה כהן", "李小龍", "さくら", "김연아", "สมชาย", "प्रिया", "ᏣᎳᎩ", "𒀭𒂗𒆤", "Ann 李"]


def page(name: str, address: str = "ann@example.com") -> welcome.Page:
    """Return the page of a name."""
    return welcome.Page(name=name, address=address, site="https://kit.example.com", confirmed_at=AT)


def pdf_of(made: welcome.Page) -> bytes:
    """Return a page as PDF."""
    with tempfile.NamedTemporaryFile(suffix=".ttf") as font:
        font.write(welcome.cut_font(made))
        font.flush()
        return welcome.draw(made, Path(font.name))


@pytest.mark.parametrize("name", RIGHT)
def test_name_in_a_script_of_the_font_stands_on_the_page(name):
    assert f"Welcome, {name}" in text_of(pdf_of(page(name)))


@pytest.mark.parametrize("name", OTHER_SCRIPTS)
def test_name_with_a_letter_that_the_font_lacks_gives_way_to_the_address(name):
    made = pdf_of(page(name))

    assert "Welcome, ann@example.com Your address" in text_of(made)
    assert PdfReader(io.BytesIO(made)).metadata.title == f"Welcome, {name}"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Zoë 🦊", "Zoë"),
        ("Zoe\u0308", "Zoë"),
        ("x\u0302yz", "x\u0302yz"),
        ("A\u200bn\u200d\ufeffn", "Ann"),
        ("\u202eAnn\u2066", "Ann"),
        ("Ann\u3000\u2003Lee\u2028", "Ann Lee"),
        ("Ann\r\n\t\0Lee", "Ann Lee"),
        ("❤\ufe0f Ann 👩\u200d🚀", "Ann"),
        ("👩🏽\u200d🚀", "ann@example.com"),
        ("🦊", "ann@example.com"),
        ("\u200b", "ann@example.com"),
        ("...", "ann@example.com"),
        ("", "ann@example.com"),
    ],
)
def test_what_nobody_misses_is_left_out(name, shown):
    assert f"Welcome, {shown} Your address" in text_of(pdf_of(page(name)))


@pytest.mark.parametrize("name", ["W" * 200, "Анна " * 40, "W" * 5000, "Z" + "\u0301\u0323" * 100])
def test_long_name_stays_on_the_page(name):
    made = pdf_of(page(name, address="a" * 64 + "@" + "b" * 180 + ".example"))

    assert len(PdfReader(io.BytesIO(made)).pages) == 1
    assert text_of(made).endswith("nothing that you need to do with it.")
    assert f"Welcome, {welcome.readable(name)[0]}" in text_of(made)


def test_every_letter_of_a_page_is_in_its_font():
    made = [page(name) for name in (*RIGHT, *OTHER_SCRIPTS, "Zoë 🦊")]

    assert all(welcome.known_characters().issuperset((p.heading + p.text).replace("\n", "")) for p in made)


def test_same_page_is_the_same_file():
    assert pdf_of(page("Ann")) == pdf_of(page("Ann"))
