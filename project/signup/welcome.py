"""The welcome page: what stands on it, and the two steps that make a PDF of it."""

import io
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from django.utils.crypto import salted_hmac
from django.utils.dateformat import format as date_format

if TYPE_CHECKING:
    from fpdf import FPDF

# fontTools and fpdf are imported where they are used: 22 MB that only the children which make pages need.

# Latin, Greek, Cyrillic, Armenian and Georgian: what is right without shaping or turning round. See fonts/README.md.
FONT = Path(__file__).parent / "fonts" / "DejaVuSans-Subset.ttf"
MAX_NAME_CHARACTERS = 200
NEVER_SHOWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})  # controls, zero-width and direction marks, unassigned
DECORATIONS = frozenset({"So", "Sk", "Sm", "Me"})  # emoji and their parts
VARIATION_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))
MARGIN_MM, LEADING = 25, 1.5


@dataclass(frozen=True, kw_only=True)
class Page:
    """What one person's page says. Shape: name as written, may be empty; the address is ASCII."""

    name: str
    address: str
    site: str
    confirmed_at: datetime

    @property
    def heading(self) -> str:
        """Return the line that greets: by the name, or by the address where the font lacks a letter of the name."""
        shown = readable(self.name) or readable(self.address)
        if len(shown) > MAX_NAME_CHARACTERS:
            shown = shown[: MAX_NAME_CHARACTERS - 1].rstrip() + "…"
        return f"Welcome, {shown}" if shown else "Welcome"

    @property
    def text(self) -> str:
        """Return what stands below it."""
        at = date_format(self.confirmed_at.astimezone(UTC), "j F Y, H:i")
        return (
            f"Your address {readable(self.address)} was confirmed on {at} UTC at {self.site}\n\n"
            "Your account is ready. Sign in with this address and the password that you have chosen.\n\n"
            "This page is for your files. There is nothing that you need to do with it."
        )

    @property
    def mark(self) -> str:
        """Return what this page is recognised by; nobody can read the name back from it."""
        said = "\0".join([self.name, self.heading, self.text])
        return salted_hmac("signup.welcome", said, algorithm="sha256").hexdigest()[:16]


@cache
def known_characters() -> frozenset[str]:
    """Return what the font can show."""
    from fontTools.ttLib import TTFont

    with TTFont(FONT, lazy=True) as font:
        return frozenset(map(chr, font.getBestCmap()))


def readable(text: str) -> str:
    """Return a text as the font can show it; empty when it lacks a letter, or nothing to read is left.

    Shape: emoji and invisible characters are left out, since the rest can be read without them; a word is never torn.
    """
    composed = unicodedata.normalize("NFC", " ".join(text.split()))
    kept = " ".join("".join(filter(is_wanted, composed)).split())
    has_letters = any(unicodedata.category(character)[0] in "LN" for character in kept)
    return kept if has_letters and known_characters().issuperset(kept) else ""


def is_wanted(character: str) -> bool:
    """Tell whether a character says something: letters, marks and signs do, also those that the font lacks."""
    category = unicodedata.category(character)
    if category in NEVER_SHOWN or character in VARIATION_SELECTORS:
        return False
    return category not in DECORATIONS or character in known_characters()


def cut_font(page: Page) -> bytes:
    """Return the font with no more than the letters of this page: most of the work, and most of the file's size."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    with TTFont(FONT, recalcTimestamp=False) as font:  # the same page is the same file
        options = subset.Options(layout_features=[], hinting=False, notdef_outline=True)
        cutter = subset.Subsetter(options)
        cutter.populate(text=page.heading + page.text)
        cutter.subset(font)
        cut = io.BytesIO()
        font.save(cut)
    return cut.getvalue()


def draw(page: Page, font: Path) -> bytes:
    """Return the page as PDF, the same bytes for the same page.

    Units: points for letters, mm for places.
    """
    from fpdf import FPDF

    pdf = FPDF(format="A4")
    pdf.set_title(f"Welcome, {page.name}"[:MAX_NAME_CHARACTERS] if page.name else "Welcome")
    pdf.set_lang("en")
    pdf.set_creation_date(page.confirmed_at)
    pdf.set_margins(MARGIN_MM, MARGIN_MM)
    pdf.set_auto_page_break(False)  # it is one page, whatever the name
    pdf.add_font("page", fname=font)
    pdf.add_page()
    paragraph(pdf, page.site, size=9)
    pdf.set_y(2.5 * MARGIN_MM)
    paragraph(pdf, page.heading, size=24 if len(page.heading) <= 60 else 14)
    pdf.ln(6)
    paragraph(pdf, page.text, size=11)
    return bytes(pdf.output())


def paragraph(pdf: "FPDF", text: str, size: int) -> None:
    """Write a text as wide as the page; a word longer than a line is broken."""
    pdf.set_font("page", size=size)
    pdf.multi_cell(0, LEADING * size / pdf.k, text, align="L", new_x="LMARGIN", new_y="NEXT")
