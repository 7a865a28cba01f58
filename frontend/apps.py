"""The console: pages people see. Server-rendered, live by htmx, in English and Simplified Chinese.

`views/` are doors (a page a file), `forms/` know the shape of what people type, `presenters/` turn rows into words, tones
and icons, `templates/<page>/` hold the pages; a partial `_name.html` is a live region that the page's own address serves
under `?part=name`. `src/` becomes `dist/` by Vite; without it pages and forms still work, and say what is missing.
"""

from django.apps import AppConfig


class FrontendConfig(AppConfig):
    name = "frontend"
    verbose_name = "Console"
