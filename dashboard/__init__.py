"""The pages: view models, Jinja2 templates and static files."""
