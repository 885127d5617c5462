"""Benchmarks with a real Kafka broker between producer and workers."""
