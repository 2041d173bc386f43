"""The status page: ``chsink ui``, and ``observe.ui`` beside a running job.

Rules:
- It only reads.  There is no request that changes anything but the cookie of the one who asks.
- It looks at state store and Kafka only while somebody watches, in one thread: one look serves all.
- Whatever is shown came from elsewhere: the server sends data as JSON, and the browser shows it as text.
- Packages of the extra ``ui`` are imported by :mod:`serve`, :mod:`app` and :mod:`access` only.
"""
