"""Is the input valid? Every refusal is a sentence that says what to do."""

import json
import unicodedata

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import password_validators_help_text_html, validate_password
from django.core.exceptions import ValidationError

from project.accounts.addresses import MAX_CHARACTERS, canonical_email

# Control characters, halves of surrogate pairs, line and paragraph separators.
UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They would make the rest of a mail or page read backwards. Source: Unicode UAX 9, 2.
TURNS_TEXT_ROUND = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Malformed(ValueError):
    """Say in words why a request body is not what the endpoint takes."""


class SignupForm(forms.Form):
    """Name, address, password, as people really type them."""

    name = forms.CharField(max_length=150, widget=forms.TextInput({"autocomplete": "name"}))
    email = forms.CharField(
        label="E-mail",
        max_length=MAX_CHARACTERS,
        widget=forms.EmailInput({"autocomplete": "email", "placeholder": "name@example.com"}),
    )
    password = forms.CharField(
        max_length=256,
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text=password_validators_help_text_html,
    )

    def clean_name(self) -> str:
        """Refuse what could forge a mail header or turn its text round."""
        name = self.cleaned_data["name"]
        if TURNS_TEXT_ROUND.intersection(name) or UNPRINTABLE.intersection(map(unicodedata.category, name)):
            raise ValidationError("A name has no line breaks or other invisible control characters. Remove them.")
        return name

    def clean_email(self) -> str:
        """Return the address in its one spelling."""
        return canonical_email(self.cleaned_data["email"])

    def clean_password(self) -> str:
        """Refuse what no keyboard types and no hasher takes."""
        password = self.cleaned_data["password"]
        if any(unicodedata.category(character) == "Cs" for character in password):
            raise ValidationError("The password holds half a character, which cannot be stored. Type it again.")
        return password

    def clean(self) -> None:
        """Check the password by the site's rules, against name and address as well."""
        if password := self.cleaned_data.get("password"):
            known = {field: self.cleaned_data.get(field, "") for field in ("name", "email")}
            try:
                validate_password(password, get_user_model()(**known))
            except ValidationError as error:
                self.add_error("password", error)


def read_json(body: bytes) -> dict[str, str]:
    """Return the three fields of a JSON body; a missing one is left to the form.

    Raises: Malformed.
    """
    try:
        data = json.loads(body.decode(), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except Malformed:
        raise
    except (ValueError, RecursionError):
        raise Malformed("The body is not JSON in UTF-8. Send one object with name, email and password.") from None
    if not isinstance(data, dict):
        raise Malformed("The body is JSON, but no object. Send one object with name, email and password.")
    fields = {name: data[name] for name in SignupForm.base_fields if name in data}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise Malformed(f"The field {name} is not a string. Send name, email and password as strings.")
    return fields


def _without_duplicates(pairs: list[tuple]) -> dict:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Malformed("The body names a field twice. Send each field once.")
    return found


def _refuse_constant(name: str):
    raise Malformed(f"The body holds {name}, which is no JSON. Send strings.")
