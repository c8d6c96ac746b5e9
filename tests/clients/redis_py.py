"""Counts with redis-py, and says so; any warning is an error."""

import sys

import redis

host, port = sys.argv[1], int(sys.argv[2])
for protocol in (2, 3):
    client = redis.Redis(host=host, port=port, protocol=protocol, decode_responses=True)
    key = f"py{protocol}"
    assert client.ping()
    assert client.incr(key) == 1
    assert client.incrby(key, 41) == 42
    assert client.get(key) == "42"
    assert client.set(key, 5, ex=100) is True
    assert 0 < client.ttl(key) <= 100
    assert client.persist(key)
    with client.pipeline(transaction=True) as pipe:
        pipe.incr(key).decrby("py-other", 2)
        assert pipe.execute() == [6, -2]
    with client.pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.incr(key)
        assert pipe.execute()[-1] == 1006
    for _ in range(2):
        assert client.execute_command("ONCE", f"once-{key}", "INCRBY", key, 4) == 1010
    assert client.execute_command("CLIENT", "LEVEL") == "local"
    assert sorted(client.scan_iter(match="py*")) == sorted([key, "py-other"])
    try:
        client.set(key, "text")
        raise AssertionError("a text was taken")
    except redis.ResponseError as error:
        assert "integer" in str(error), error
    try:
        client.lpush("list", 1)
        raise AssertionError("a list was taken")
    except redis.ResponseError:
        pass
    assert client.info("server")["redis_mode"] == "standalone"
    assert client.delete(key, "py-other") == 2
    assert client.get(key) is None
    client.close()
print("done")
