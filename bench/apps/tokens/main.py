def run(n):
    for i in range(n):
        yield "token %d" % i
