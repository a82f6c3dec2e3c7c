"""One end of a connection, run inside a network namespace.

serve PROTOCOL PORT NAME                  answers NAME and the address that it sees its client at
ask PROTOCOL ADDRESS PORT TIMES TIMEOUT   asks so often, and prints a line for each: the answer, or what went wrong
chat PROTOCOL ADDRESS PORT                asks once for each line of its input, from one and the same port
"""
import socket
import sys

KINDS = {
    "tcp": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "sctp": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
    "udp": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
}


def serve(protocol, port, name):
    kind, number = KINDS[protocol]
    server = socket.socket(socket.AF_INET, kind, number)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", int(port)))
    if protocol != "udp":
        server.listen(64)
    print("ready", flush=True)
    while True:
        if protocol == "udp":
            _, client = server.recvfrom(1024)
            server.sendto(f"{name} {client[0]}".encode(), client)
        else:
            connection, client = server.accept()
            connection.sendall(f"{name} {client[0]}".encode())
            connection.close()


def answer(client, protocol):
    try:
        if protocol == "udp":
            client.send(b"?")
        return client.recv(1024).decode()
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return error.strerror


def connect(protocol, address, port, timeout):
    kind, number = KINDS[protocol]
    client = socket.socket(socket.AF_INET, kind, number)
    client.settimeout(float(timeout))
    client.connect((address, int(port)))
    return client


def ask(protocol, address, port, times, timeout):
    for _ in range(int(times)):
        try:
            with connect(protocol, address, port, timeout) as client:
                print(answer(client, protocol))
        except ConnectionRefusedError:
            print("refused")
        except TimeoutError:
            print("timeout")
        except OSError as error:
            print(error.strerror)


def chat(protocol, address, port):
    client = connect(protocol, address, port, 30)
    for _ in sys.stdin:
        print(answer(client, protocol), flush=True)


{"serve": serve, "ask": ask, "chat": chat}[sys.argv[1]](*sys.argv[2:])
