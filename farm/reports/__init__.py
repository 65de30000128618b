"""Results in somebody else's format: JUnit, Markdown, CSV, webhooks."""
