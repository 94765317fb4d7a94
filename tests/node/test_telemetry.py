"""OpenTelemetry's context goes along with messages, from node to node and from handler to handler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hopwire.errors import HandlerFailed
from hopwire.node import Actor, Context, NodeSettings, handles
from tests.node.stories import NETWORKS, Count, Greet, Greeter, Greeting, Nodes, Number

SETTINGS = NodeSettings(telemetry=True)


class Asks(Actor):
    @handles
    async def count(self, request: Count, context: Context) -> Number:
        await context.ask(Greet("Ada"), Greeting)
        return Number(1)


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    provider = TracerProvider()
    trace.set_tracer_provider(provider)  # it can be set once in a process
    return provider


@pytest.fixture
def spans(provider: TracerProvider) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.mark.parametrize("tell", NETWORKS.values(), ids=NETWORKS)
def test_handlers_on_several_nodes_are_one_trace(tell: Any, spans: InMemorySpanExporter) -> None:
    async def story(nodes: Nodes) -> None:
        async with (
            nodes.node(settings=SETTINGS) as a,
            nodes.node(peers=[a.uri], settings=SETTINGS) as b,
        ):
            a.host(Asks())
            b.host(Greeter())
            await b.knows(Count)
            await a.knows(Greet)
            with trace.get_tracer("test").start_as_current_span("outside"):
                assert await b.hub().ask(Count(1), Number) == Number(1)
            await asyncio.sleep(0.01)

    tell(story)
    found = {span.name: span for span in spans.get_finished_spans()}
    outside, count, greet = (found[name] for name in ("outside", "process counter.count", "process greeter.greet"))
    assert len({span.context.trace_id for span in (outside, count, greet) if span.context}) == 1
    assert count.parent is not None
    assert outside.context is not None
    assert count.parent.span_id == outside.context.span_id
    assert greet.parent is not None
    assert count.context is not None
    assert greet.parent.span_id == count.context.span_id
    assert count.kind is trace.SpanKind.CONSUMER


def test_a_handler_that_fails_marks_its_span(spans: InMemorySpanExporter) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node(settings=SETTINGS) as node:
            node.host(Greeter())
            with pytest.raises(HandlerFailed):
                await node.hub().ask(Greet("nobody"), Greeting)
            await asyncio.sleep(0.01)

    NETWORKS["memory"](story)
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


def test_without_a_span_nothing_is_carried(spans: InMemorySpanExporter) -> None:
    seen: list[tuple[bytes, ...]] = []

    class Looks(Actor):
        @handles
        async def greet(self, request: Greet, context: Context) -> None:
            seen.append(context.message.extensions)

    async def story(nodes: Nodes) -> None:
        async with nodes.node(settings=SETTINGS) as node:
            node.host(Looks())
            await node.hub().send(Greet("Ada"))
            await asyncio.sleep(0.01)

    NETWORKS["memory"](story)
    assert seen == [()]
