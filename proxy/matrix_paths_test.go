package proxy

// matrix: ways to write /tickets/1 that some server behind us takes for it. The first 24 are the published
// table of this project's measurements; the others were added here.
var matrix = []string{
	"/tickets/1", "//tickets/1", "/./tickets/1", "/x/../tickets/1", "/static/../tickets/1", "/static/..%2ftickets/1",
	"/static/%2e%2e/tickets/1", "/%74ickets/1", "/tickets%2f1", "/TICKETS/1", "/tickets;a=b/1", "/static/..;/tickets/1",
	`/static\..\tickets/1`, "/static/..%5ctickets/1", "/%2574ickets/1", "/static/a.css/../../tickets/1",
	"/static/#/../../tickets/1", "/static/?/../../tickets/1", "/%2e/tickets/1", "/static/..%c0%aftickets/1",
	"/tickets%00/1", "/static/.%2e/tickets/1", "/%2ftickets/1", "/static/%252e%252e/tickets/1",

	"///tickets/1", "/tickets//1", "/static//tickets/1", "/static/..//tickets/1", "/tickets/./1", "/tickets/../tickets/1", "/static/%2E%2E%2Ftickets%2F1",
	"/static/%2e%2e%5ctickets%5c1", "/tickets%5c1", `/tickets\1`, `\tickets\1`, "/%54%49%43%4b%45%54%53/1", "/TiCkEtS/1", "/tic%E2%84%AAets/1",
	"/ticket%C5%BF/1", "/t%C4%B1ckets/1", "/tickets%20/1", "/tickets./1", "/tickets%3ba=b/1", "/static/..%3b/tickets/1", "/tickets%3f/1", "/tickets%23/1",
	"/tickets%0a/1", "/tickets%09/1", "/static/%25%32%65%25%32%65/tickets/1", "/static/..%25%32%66tickets/1", "/%u0074ickets/1", "/static/%c0%ae%c0%ae/tickets/1",
	"/tickets/1;x", "/tickets/1#x", "/tickets/1/", "/static/x?/../../tickets/1", "/static/..?/tickets/1", "http://a.test/tickets/1", "http://a.test//tickets/1", "*", "tickets/1",
	"/static/../../../tickets/1", "/static/..\xc0\xaftickets/1", "/tickets\xff/1", "/.//tickets/1", "/%2e%2e/tickets/1", "/%5ctickets/1", "/;/tickets/1",
}
