package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// pageWords are what the page says in one language.
type pageWords struct {
	Lang, Groups, Point                                   string
	weekdays                                              [7]string
	months                                                [12]string
	layout                                                func(w pageWords, t time.Time) string
	FreeSeats, OfAll, Tier, TicketType, Price, Prices     string
	OnSale, OnSaleUntil, Opens, Closed, Paused, Cancelled string
	MaxSeats, Cap, HoldFor, minutes, seconds              string
	NoEvent, NoEventHelp, Rules, Where, SeatMap           string
}

// when writes an instant as the clocks at the event show it; in UTC where the zone is not known.
func (w pageWords) when(t time.Time, zone string) string {
	place, err := time.LoadLocation(zone)
	if err != nil {
		place = time.UTC
	}
	return w.layout(w, t.In(place))
}

// duration writes whole minutes, or else seconds.
func (w pageWords) duration(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf(w.minutes, d/time.Minute)
	}
	return fmt.Sprintf(w.seconds, d/time.Second)
}

// number groups the digits of a count.
func (w pageWords) number(n int) string { return grouped(strconv.Itoa(n), w.Groups) }

// wordsFor picks the language that an Accept-Language header (RFC 9110, section 12.5.4) wants most, else Vietnamese.
func wordsFor(accept string) pageWords {
	best, most := vietnamese, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		tag, params, weighted := strings.Cut(part, ";")
		weight := 1.0
		if weighted {
			value, _ := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			weight, _ = strconv.ParseFloat(value, 64) // unreadable is 0
		}
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		for _, w := range []pageWords{vietnamese, english} {
			if w.Lang == primary && weight > most {
				best, most = w, weight
			}
		}
	}
	return best
}

var english = pageWords{
	Lang: "en", Groups: ",", Point: ".",
	weekdays: [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
	months: [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
		"December"},
	layout: func(w pageWords, t time.Time) string {
		return fmt.Sprintf("%s, %d %s %d, %s", w.weekdays[t.Weekday()], t.Day(), w.months[t.Month()-1], t.Year(), t.Format("15:04 MST"))
	},
	FreeSeats: "seats are free", OfAll: "of", Tier: "Tier", TicketType: "Ticket", Price: "Price", Prices: "Prices",
	OnSale: "On sale now.", OnSaleUntil: "On sale until %s.", Opens: "Sales open on %s.", Closed: "Sales are closed.",
	Paused: "Sales are paused.", Cancelled: "This event is cancelled.",
	MaxSeats: "Up to %d seats at once.", Cap: "Up to %d seats for each customer.", HoldFor: "Chosen seats are kept for %s until they are paid.",
	minutes: "%d minutes", seconds: "%d seconds", Where: "Where", Rules: "How many, how long", SeatMap: "The seat map as data",
	NoEvent: "No such event", NoEventHelp: "Nothing is on sale at this address. Check how it is spelled.",
}

var vietnamese = pageWords{
	Lang: "vi", Groups: ".", Point: ",",
	weekdays: [7]string{"Chủ nhật", "Thứ hai", "Thứ ba", "Thứ tư", "Thứ năm", "Thứ sáu", "Thứ bảy"},
	layout: func(w pageWords, t time.Time) string {
		return fmt.Sprintf("%s %s, %d/%d/%d", t.Format("15:04 MST"), strings.ToLower(w.weekdays[t.Weekday()]), t.Day(), t.Month(), t.Year())
	},
	FreeSeats: "ghế còn trống", OfAll: "trên", Tier: "Hạng", TicketType: "Loại vé", Price: "Giá", Prices: "Giá vé",
	OnSale: "Đang mở bán.", OnSaleUntil: "Mở bán đến %s.", Opens: "Mở bán lúc %s.", Closed: "Đã ngừng bán.",
	Paused: "Tạm dừng bán.", Cancelled: "Sự kiện này đã bị hủy.",
	MaxSeats: "Mỗi lần giữ tối đa %d ghế.", Cap: "Mỗi khách tối đa %d ghế.", HoldFor: "Ghế đã chọn được giữ trong %s để thanh toán.",
	minutes: "%d phút", seconds: "%d giây", Where: "Địa điểm", Rules: "Số ghế và thời gian giữ", SeatMap: "Sơ đồ ghế dạng dữ liệu",
	NoEvent: "Không có sự kiện này", NoEventHelp: "Không có gì được bán ở địa chỉ này. Hãy kiểm tra lại địa chỉ.",
}
