"""What became of messages: sightings of many nodes to hops, requests and flows."""
