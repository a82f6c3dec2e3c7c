"""Says whether the database can be reached. It runs beside the service: one that is busy is not out of order."""

import http.server
import json
import os

import pymysql

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "health.json")) as file:
    SETTINGS = json.load(file)


def database_answers():
    try:
        patience = {"connect_timeout": 2, "read_timeout": 2, "write_timeout": 2}
        with pymysql.connect(**SETTINGS["database"], **patience) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return True
    except (pymysql.Error, OSError):
        return False


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ready = database_answers()
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b"ready\n" if ready else b"the database does not answer\n")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("", SETTINGS["port"]), Answer).serve_forever()
