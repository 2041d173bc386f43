"""What Spark needs of Java: the Java that it runs on, and the pinned jars of its Kafka source."""
