"""What a test job leaves behind."""

from django.db import models


class Effect(models.Model):
    """One row for each time a handler did its work."""

    note = models.CharField(max_length=100, help_text="The kind that wrote it.")
    value = models.TextField(blank=True, default="", help_text="What it was asked to write.")
    at = models.DateTimeField(auto_now_add=True, help_text="When it wrote.")

    def __str__(self):
        return f"{self.note}: {self.value}"
