"""The looks a reader can choose, and the cookie that keeps the choice."""

THEME_COOKIE = "theme"
THEMES = ("auto", "light", "dark")
