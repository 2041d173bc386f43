"""Runs the checks that packages bring, and knows none of them: :mod:`chsink.checks` holds the list.

``chsink doctor`` prints all findings; a start runs the same checks, logs warnings and stops at the first error.
"""
